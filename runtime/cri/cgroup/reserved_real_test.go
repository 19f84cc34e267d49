//go:build integration

package cgroup

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestCgroupOfDaemonsIsBounded(t *testing.T) {
	tree := newTree(t) // removes what is below its root
	at := tree.layout.root().child("daemons")
	for _, dir := range tree.dirs(at) {
		must.OK(t, os.MkdirAll(dir, 0o755))
	}
	r := Reserved{Name: "/" + strings.Join(at, "/"), Values: Values{Shares: 512, MemoryBytes: 64 << 20, Pids: 77}}
	must.OK(t, CheckReserved([]Reserved{r}))
	must.OK(t, r.Set())
	equal(t, "memory", tree.memoryOf(at), fmt.Sprint(64<<20))
	equal(t, "processes", tree.value(at, "pids", "pids.max", "pids.max"), "77")
	want := "512"
	if tree.unified {
		want = fmt.Sprint(weightOf(512))
		equal(t, "protected memory", readText(tree.dirs(at)[""], "memory.min"), fmt.Sprint(64<<20))
	}
	equal(t, "shares", tree.sharesOf(at), want)
	// The CPU alone leaves the rest as it is.
	must.OK(t, Reserved{Name: r.Name, Values: Values{Shares: 1024}}.Set())
	equal(t, "memory", tree.memoryOf(at), fmt.Sprint(64<<20))

	missing := Reserved{Name: r.Name + "-not", Values: r.Values, Field: "systemReservedCgroup"}
	if err := missing.Set(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing cgroup: %v", err)
	}
}
