package resources

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// HugePages returns the huge pages in a list, by their size. A name that gives no size counts as none.
func HugePages(list corev1.ResourceList) []*journaletv1.HugePages {
	bySize := map[int64]int64{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		if size := PageBytes(name); size > 0 && !q.IsZero() {
			bySize[size] = Bytes(&q)
		}
	}
	var all []*journaletv1.HugePages
	for _, size := range slices.Sorted(maps.Keys(bySize)) {
		all = append(all, &journaletv1.HugePages{PageBytes: size, Bytes: bySize[size]})
	}
	return all
}

// PageBytes returns the size of a page of a resource such as hugepages-2Mi, in bytes; 0 for every other resource.
func PageBytes(name corev1.ResourceName) int64 {
	text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	size, err := resource.ParseQuantity(text)
	if !ok || err != nil {
		return 0
	}
	return max(0, Bytes(&size))
}

// HugePagesName returns the resource name of huge pages with a size in bytes.
func HugePagesName(pageBytes int64) string {
	return corev1.ResourceHugePagesPrefix + resource.NewQuantity(pageBytes, resource.BinarySI).String()
}
