package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/journalet/journalet/actors/resources"
)

// hugetlb is the controller of huge pages.
const hugetlb = "hugetlb"

// PageSize formats a size of pages as files of cgroups and CRI do, such as 2MB.
func PageSize(kilobytes uint64) string {
	const mega, giga = 1 << 10, 1 << 20
	switch {
	case kilobytes >= giga:
		return strconv.FormatUint(kilobytes/giga, 10) + "GB"
	case kilobytes >= mega:
		return strconv.FormatUint(kilobytes/mega, 10) + "MB"
	}
	return strconv.FormatUint(kilobytes, 10) + "KB"
}

// HugePages returns the bytes of huge pages in lists by size of page, as PageSize formats it. Of what several lists
// have, the last one counts.
func HugePages(lists ...corev1.ResourceList) map[string]uint64 {
	bytes := map[string]uint64{}
	for _, list := range lists {
		for name, q := range list {
			if size := resources.PageBytes(name); size > 0 {
				bytes[PageSize(uint64(size)>>10)] = uint64(max(0, resources.Bytes(&q)))
			}
		}
	}
	return bytes
}

// BoundsHugePages reports whether cgroups can bound huge pages. The unified hierarchy, below dir, lists its
// controllers. On cgroup v1 the controller has a directory of its own below dir.
func BoundsHugePages(dir string, unified bool) bool {
	if unified {
		return slices.Contains(strings.Fields(readText(dir, "cgroup.controllers")), hugetlb)
	}
	_, err := os.Stat(filepath.Join(dir, hugetlb, "cgroup.procs"))
	return err == nil
}

// boundedPages returns the sizes of huge pages that cgroups of this machine can bound, none without the controller.
func (t *Tree) boundedPages() []string {
	there := t.mounts[hugetlb] != ""
	if t.unified {
		there = BoundsHugePages(t.mounts[""], true)
	}
	if !there {
		return nil
	}
	return cgroups.HugePageSizes()
}

// hugePagesOf returns how much a pod as a whole may have in huge pages of each size: what it requests, and nothing of
// the other sizes (kubelet: HugePageLimits). Its containers have limits of their own.
func (t *Tree) hugePagesOf(p *corev1.Pod) []*cgroups.HugepageLimit {
	if len(t.pageSizes) == 0 {
		return nil
	}
	requested := HugePages(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
	var out []*cgroups.HugepageLimit
	for _, size := range t.pageSizes {
		out = append(out, &cgroups.HugepageLimit{Pagesize: size, Limit: requested[size]})
	}
	return out
}
