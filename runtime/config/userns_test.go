package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestIDsOfUserNamespaces(t *testing.T) {
	same := func(text string) subordinate { return func(bool) (string, error) { return text, nil } }
	for name, c := range map[string]struct {
		ids     subordinate
		perPod  int64
		maxPods int32
		want    IDRange
		fails   string
	}{
		"no user":        {same(""), 65536, 110, IDRange{First: 65536, IDsPerPod: 65536, Pods: 65535}, ""},
		"more for a pod": {same(""), 1 << 20, 110, IDRange{First: 1 << 20, IDsPerPod: 1 << 20, Pods: 4095}, ""},
		"subordinate ids": {same("0: kubelet 65536 7208960\n"), 65536, 110,
			IDRange{First: 65536, IDsPerPod: 65536, Pods: 110}, ""},
		"too few":        {same("0: kubelet 65536 6553600\n"), 65536, 110, IDRange{}, "not enough for maxPods"},
		"not aligned":    {same("0: kubelet 100000 7208960\n"), 65536, 110, IDRange{}, "multiple of 65536"},
		"the node's own": {same("0: kubelet 0 7208960\n"), 65536, 1, IDRange{}, "not at 0"},
		"wraps around":   {same("0: kubelet 4294901760 131072\n"), 65536, 1, IDRange{}, "largest id, 4294967295"},
		"up to the last": {same("0: kubelet 4294836224 131072\n"), 65536, 2, IDRange{4294836224, 65536, 2}, ""},
		"half a pod":     {same("0: kubelet 65536 7208961\n"), 65536, 1, IDRange{}, "multiple of 65536"},
		"two ranges":     {same("0: kubelet 65536 65536\n1: kubelet 655360 65536\n"), 65536, 1, IDRange{}, "one range"},
		"not a number":   {same("0: kubelet x 65536\n"), 65536, 1, IDRange{}, "/etc/subuid"},
		"other groups": {func(groups bool) (string, error) {
			return map[bool]string{false: "0: kubelet 65536 65536\n", true: "0: kubelet 131072 65536\n"}[groups], nil
		}, 65536, 1, IDRange{}, "mismatched"},
		"no answer": {func(bool) (string, error) { return "", errors.New("no server") }, 65536, 1, IDRange{}, "no server"},
	} {
		cfg := Defaults()
		cfg.UserNamespaceIDs, cfg.MaxPods = c.perPod, c.maxPods
		got, err := cfg.userNamespaces(c.ids)
		switch {
		case c.fails == "" && (err != nil || got != c.want):
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v, want an error with %q", name, err, c.fails)
		}
	}
}

func TestSwapAndUserNamespacesAreConfigured(t *testing.T) {
	read := func(body string) (*Config, error) {
		c, _, err := load(t, "--config", write(t, filepath.Join(t.TempDir(), "c.yaml"), head+body))
		if err == nil {
			err = c.Validate()
		}
		return c, err
	}
	c, err := read("memorySwap: {swapBehavior: LimitedSwap}\nuserNamespaces: {idsPerPod: 131072}\n")
	must.OK(t, err)
	if c.SwapBehavior != SwapLimited || c.UserNamespaceIDs != 131072 {
		t.Errorf("%q %d", c.SwapBehavior, c.UserNamespaceIDs)
	}
	c, err = read("memorySwap: {}\nuserNamespaces: {}\n")
	must.OK(t, err)
	if c.SwapBehavior != SwapNone || c.UserNamespaceIDs != 65536 {
		t.Errorf("%q %d", c.SwapBehavior, c.UserNamespaceIDs)
	}
	for _, bad := range []string{
		"memorySwap: {swapBehavior: UnlimitedSwap}", "userNamespaces: {idsPerPod: 1000}",
		"userNamespaces: {idsPerPod: -65536}",
	} {
		if _, err := read(bad + "\n"); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestHugePagesAndSwapAreFactsOfTheNode(t *testing.T) {
	root := machine(t)
	write(t, filepath.Join(root, "proc/meminfo"), "MemTotal: 4194304 kB\nSwapTotal: 1024 kB\n")
	write(t, filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"), "4\n")
	write(t, filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"), "0\n")
	cfg := Defaults()
	cfg.RootDir = t.TempDir()
	f, err := cfg.nodeFacts(root, "h", networkOf("", "", addr(t, "10.0.0.5/24")))
	must.OK(t, err)
	want := []HugePages{{PageBytes: 2 << 20, Bytes: 8 << 20}, {PageBytes: 1 << 30}}
	if !slices.Equal(f.HugePages, want) || f.SwapBytes != 1<<20 || f.AllocatableMemory() != 4<<30-8<<20-100<<20 {
		t.Errorf("%+v, %d bytes allocatable", f, f.AllocatableMemory())
	}
}
