package pod

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// The kubelet's algorithm by hand: name and image as JSON with sorted keys, its bytes as the dump of a Go slice in
// decimal, FNV-1a of 32 bits over that.
func TestContainerHashIsTheKubelets(t *testing.T) {
	for _, c := range []struct{ name, image, want string }{
		{"main", "busybox:1.36", "42f056bf"},
		{"a&b", "x<y", "401dc74c"}, // JSON of Go escapes these
	} {
		text := fmt.Sprintf(`{"image":"%s","name":"%s"}`, c.image, c.name)
		text = strings.NewReplacer("&", `\u0026`, "<", `\u003c`).Replace(text)
		dumped := fmt.Sprintf("([]uint8)%v", []byte(text))
		hash := uint32(2166136261)
		for _, b := range []byte(dumped) {
			hash = (hash ^ uint32(b)) * 16777619
		}
		if byHand := fmt.Sprintf("%x", hash); byHand != c.want {
			t.Errorf("%s, %s: by hand %s, want %s", c.name, c.image, byHand, c.want)
		}
		if is := fmt.Sprint(dump.ForHash([]byte(text))); is != dumped {
			t.Errorf("the kubelet's dump is %s, by hand %s", is, dumped)
		}
		got := ContainerHash(&corev1.Container{Name: c.name, Image: c.image, Args: []string{"not hashed"}})
		if got != c.want {
			t.Errorf("%s, %s: got %s, want %s", c.name, c.image, got, c.want)
		}
	}
}
