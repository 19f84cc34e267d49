//go:build integration

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/test/must"
)

var trees atomic.Int32

// newTree returns an initialized tree below its own cgroup, which is removed at the end. It needs root and writable
// cgroups.
func newTree(t *testing.T, seeds ...*corev1.Pod) *Tree {
	t.Helper()
	root := fmt.Sprintf("jltree%d-%d", os.Getpid(), trees.Add(1))
	tree := reopened(t, root)
	l := Layout{Root: root}
	for _, dir := range tree.dirs(l.root()) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatalf("%v; run as root with /sys/fs/cgroup writable", err)
		}
	}
	t.Cleanup(func() {
		if err := tree.destroy(l.root()); err != nil {
			t.Error(err)
		}
	})
	initTree(t, tree, seeds...)
	return tree
}

// reopened returns the tree of the next run of the agent, before Init.
func reopened(t *testing.T, root string) *Tree {
	t.Helper()
	tree, err := New(Options{All: true, Root: root, PodPids: 100, Node: OfNode(1500, 1<<30, 5000)})
	must.OK(t, err)
	return tree
}

func initTree(t *testing.T, tree *Tree, seeds ...*corev1.Pod) {
	t.Helper()
	for _, p := range seeds {
		tree.AddKnown(string(p.UID))
		tree.Seed(p)
	}
	must.OK(t, errors.Join(tree.Init(Cgroupfs), tree.SetNodeLimits()))
}

// value reads a value of a cgroup, from the file of cgroup v1 or of v2.
func (t *Tree) value(at name, controller, one, two string) string {
	if t.unified {
		return readText(t.dirs(at)[""], two)
	}
	return readText(t.dirs(at)[controller], one)
}

func (t *Tree) memoryOf(at name) string {
	return t.value(at, "memory", "memory.limit_in_bytes", "memory.max")
}

func (t *Tree) quotaOf(at name) string {
	return strings.Fields(t.value(at, "cpu", "cpu.cfs_quota_us", "cpu.max") + " -")[0]
}

func (t *Tree) sharesOf(at name) string { return t.value(at, "cpu", "cpu.shares", "cpu.weight") }

func equal(t *testing.T, what, is, want string) {
	t.Helper()
	if is != want {
		t.Errorf("%s: %s, want %s", what, is, want)
	}
}

func podWith(uid string, r corev1.ResourceRequirements) *corev1.Pod {
	p := podOf(nil, r)
	p.UID = types.UID(uid)
	return p
}

// runIn runs a process in a cgroup until the end of the test.
func runIn(t *testing.T, tree *Tree, at name) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for _, dir := range tree.dirs(at) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0o600); err != nil &&
			!os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return cmd
}

func ensure(t *testing.T, tree *Tree, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		must.OK(t, tree.Ensure(p, false))
	}
}

// A node that is configured otherwise after a restart changes the cgroup of a pod that runs.
func TestCgroupOfARunningPodFollowsTheNodesQuota(t *testing.T) {
	tree, p := newTree(t), podWith("u1", size("1", "64Mi", "1", "64Mi"))
	at, none := tree.layout.pod("u1", corev1.PodQOSGuaranteed), "-1"
	if tree.unified {
		none = "max"
	}
	ensure(t, tree, p)
	equal(t, "quota by default", tree.quotaOf(at), "100000")
	for _, c := range []struct {
		by   CPUQuota
		want string
	}{{CPUQuota{Period: 10_000}, "10000"}, {CPUQuota{Off: true}, none}} {
		next := reopened(t, tree.opts.Root)
		next.opts.CPUQuota = c.by
		initTree(t, next, p)
		ensure(t, next, p)
		equal(t, fmt.Sprintf("quota with %+v", c.by), next.quotaOf(at), c.want)
	}
}

func TestTreeLimitsAllPodsTogether(t *testing.T) {
	tree := newTree(t)
	top := tree.layout.top()
	equal(t, "memory", tree.memoryOf(top), fmt.Sprint(1<<30))
	equal(t, "processes", tree.value(top, "pids", "pids.max", "pids.max"), "5000")
	shares := map[bool][]string{false: {"1536", "2", "2"}, true: {"59", "1", "1"}}[tree.unified]
	equal(t, "shares of all", tree.sharesOf(top), shares[0])
	equal(t, "shares of BestEffort", tree.sharesOf(tree.layout.class(corev1.PodQOSBestEffort)), shares[1])
	equal(t, "shares of Burstable", tree.sharesOf(tree.layout.class(corev1.PodQOSBurstable)), shares[2])
	other := reopened(t, "no-such-cgroup")
	if err := other.Init(Cgroupfs); err == nil || !strings.Contains(err.Error(), "--cgroup-root") {
		t.Errorf("below a missing root: %v", err)
	}
}

func TestBurstableSharesSurviveRestart(t *testing.T) {
	tree := newTree(t)
	one, two := podWith("one", size("1", "", "", "")), podWith("two", size("500m", "", "", ""))
	ended := podWith("ended", size("4", "", "", ""))
	ensure(t, tree, one, two, ended, podWith("none", size("", "", "", "")))
	tree.RemoveIfEmpty("ended")
	class := tree.layout.class(corev1.PodQOSBurstable)
	want := map[bool][]string{false: {"1536", "1024", "2"}, true: {"59", "39", "1"}}[tree.unified]
	equal(t, "two pods", tree.sharesOf(class), want[0])

	again := reopened(t, tree.opts.Root)
	old := podWith("old", size("8", "", "", "")) // created while pods got no cgroups
	initTree(t, again, one, two, old)
	equal(t, "after a restart", again.sharesOf(class), want[0])
	if again.exists(again.layout.pod("old", corev1.PodQOSBurstable)) {
		t.Error("a pod that runs without a cgroup got one")
	}
	for i, uid := range []string{"two", "one"} {
		must.OK(t, again.Remove(uid))
		equal(t, "without pod "+uid, again.sharesOf(class), want[i+1])
	}
}

func TestRestartedPodInKeptCgroupCountsInShares(t *testing.T) {
	tree := newTree(t)
	p := podWith("a", size("1", "", "", ""))
	ensure(t, tree, p)
	must.OK(t, tree.create(tree.layout.pod("a", corev1.PodQOSBurstable).child("container"), Values{}))
	tree.RemoveIfEmpty("a")
	ensure(t, tree, p)
	equal(t, "shares", tree.sharesOf(tree.layout.class(corev1.PodQOSBurstable)),
		map[bool]string{false: "1024", true: "39"}[tree.unified])
}

func TestRepeatedInitCountsPodsOnce(t *testing.T) {
	tree := newTree(t)
	p := podWith("a", size("1", "", "", ""))
	ensure(t, tree, p)
	again := reopened(t, tree.opts.Root)
	initTree(t, again, p)
	again.ready, again.seeds = false, []*corev1.Pod{p} // as after a failure of the last step
	initTree(t, again)
	equal(t, "shares", again.sharesOf(again.layout.class(corev1.PodQOSBurstable)),
		map[bool]string{false: "1024", true: "39"}[again.unified])
}

func TestPodCgroupFollowsContainers(t *testing.T) {
	tree := newTree(t)
	small, large := podWith("a", size("100m", "32Mi", "200m", "64Mi")), podWith("a", size("200m", "32Mi", "400m", "128Mi"))
	at := tree.layout.pod("a", corev1.PodQOSBurstable)
	ensure(t, tree, small)
	equal(t, "processes", tree.value(at, "pids", "pids.max", "pids.max"), "100")
	for _, tree := range []*Tree{tree, reopened(t, tree.opts.Root)} { // the second one reads the limits from the cgroup
		if !tree.Ready() {
			initTree(t, tree, large)
		}
		for _, step := range []struct {
			do            func(p *corev1.Pod, exclusive bool) error
			pod           *corev1.Pod
			quota, memory int
		}{
			{tree.Widen, large, 40_000, 128 << 20}, {tree.Fit, large, 40_000, 128 << 20},
			{tree.Widen, small, 40_000, 128 << 20}, {tree.Fit, small, 20_000, 64 << 20},
		} {
			must.OK(t, step.do(step.pod, false))
			equal(t, "quota", tree.quotaOf(at), fmt.Sprint(step.quota))
			equal(t, "memory", tree.memoryOf(at), fmt.Sprint(step.memory))
		}
	}
	// A pod without a cgroup does not get one.
	if err := tree.Widen(podWith("other", size("1", "", "", "")), false); err != nil ||
		tree.existsAnywhere(tree.layout.pod("other", corev1.PodQOSBurstable)) {
		t.Errorf("a pod without a cgroup: %v", err)
	}
}

func TestUnseededPodCgroupFollowsContainers(t *testing.T) {
	tree := newTree(t)
	ensure(t, tree, podWith("a", size("100m", "32Mi", "200m", "64Mi")))
	at := tree.layout.pod("a", corev1.PodQOSBurstable)
	runIn(t, tree, at)
	again := reopened(t, tree.opts.Root)
	initTree(t, again)
	must.OK(t, again.Widen(podWith("a", size("200m", "32Mi", "400m", "128Mi")), false))
	equal(t, "quota", again.quotaOf(at), "40000")
	equal(t, "memory", again.memoryOf(at), fmt.Sprint(128<<20))
	for _, uid := range []string{"other", "not/a/uid"} {
		if err := again.Widen(podWith(uid, size("1", "", "", "")), false); err != nil {
			t.Errorf("a pod without a cgroup: %v", err)
		}
	}
}

func TestQuotaWaitsForContainerWithMore(t *testing.T) {
	tree := newTree(t)
	ensure(t, tree, podWith("a", size("100m", "32Mi", "400m", "64Mi")))
	at := tree.layout.pod("a", corev1.PodQOSBurstable)
	container := at.child("container")
	must.OK(t, tree.create(container, Values{QuotaMicros: 40_000, PeriodMicros: 100_000}))
	small := podWith("a", size("100m", "32Mi", "200m", "32Mi"))
	must.OK(t, tree.Fit(small, false))
	equal(t, "memory, which does not wait", tree.memoryOf(at), fmt.Sprint(32<<20))
	if !tree.unified { // v2 allows a lower quota than those below
		equal(t, "the quota before", tree.quotaOf(at), "40000")
	}
	if err := errors.Join(tree.set(container, Values{QuotaMicros: 20_000, PeriodMicros: 100_000}),
		tree.Fit(small, false)); err != nil {
		t.Fatal(err)
	}
	equal(t, "the quota after", tree.quotaOf(at), "20000")
}

func TestPodMemoryLimitBelowUsageIsRefused(t *testing.T) {
	tree := newTree(t)
	p := podWith("a", size("100m", "32Mi", "200m", "64Mi"))
	ensure(t, tree, p)
	at := tree.layout.pod("a", corev1.PodQOSBurstable)
	// A program that starts in the cgroup uses some memory.
	held := exec.CommandContext(t.Context(), "sh", "-c", "read go; exec sleep 1000")
	in, err := held.StdinPipe()
	if err == nil {
		err = held.Start()
	}
	must.OK(t, err)
	t.Cleanup(func() { _, _ = held.Process.Kill(), held.Wait() })
	for _, dir := range tree.dirs(at) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, held.Process.Pid), 0o600)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	must.Eventually(t, time.Minute, "bytes that the pod uses", func() (string, bool) {
		used := tree.memoryUsed(at)
		return fmt.Sprint(used), used >= 8<<10
	})
	err = tree.Widen(podWith("a", size("100m", "4Ki", "300m", "4Ki")), false)
	if err == nil || !strings.Contains(err.Error(), "below current usage") {
		t.Errorf("%v", err)
	}
	equal(t, "the quota", tree.quotaOf(at), "20000")
	equal(t, "memory", tree.memoryOf(at), fmt.Sprint(64<<20))
}

func TestBusyCgroupIsRemovedOnlyWithItsPod(t *testing.T) {
	tree := newTree(t)
	p := podWith("a", size("", "", "", ""))
	ensure(t, tree, p)
	at := tree.layout.pod("a", corev1.PodQOSBestEffort)
	container := at.child("container")
	must.OK(t, tree.create(container, Values{}))
	tree.RemoveIfEmpty("a")
	if !tree.exists(at) {
		t.Fatal("a cgroup with a container was removed")
	}
	left := runIn(t, tree, container)
	must.OK(t, tree.Remove("a"))
	if tree.existsAnywhere(at) {
		t.Error("something is left of the cgroup")
	}
	if err := left.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("its process ended with %v", err)
	}
	// Removing it again, or a pod that never had a cgroup, succeeds.
	must.OK(t, errors.Join(tree.Remove("a"), tree.Remove("never"), tree.Ensure(p, false)))
	tree.RemoveIfEmpty("a")
	if tree.existsAnywhere(at) {
		t.Error("an empty cgroup was not removed")
	}
}

func TestEmptyOrphanCgroupsAreRemoved(t *testing.T) {
	tree := newTree(t)
	known := podWith("known", size("1", "", "", ""))
	var all []*corev1.Pod
	for _, uid := range []string{"known", "gone", "busy", "young"} {
		all = append(all, podWith(uid, size("1", "", "", "")))
	}
	ensure(t, tree, all...)
	podCgroup := func(uid string) name { return tree.layout.pod(uid, corev1.PodQOSBurstable) }
	runIn(t, tree, podCgroup("busy"))
	other := tree.layout.class(corev1.PodQOSBurstable).child("other")
	must.OK(t, tree.create(other, Values{}))
	before := time.Now().Add(-2 * orphanAge)
	for _, at := range []name{podCgroup("known"), podCgroup("gone"), podCgroup("busy"), other} {
		for _, dir := range tree.dirs(at) {
			if err := os.Chtimes(dir, before, before); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	again := reopened(t, tree.opts.Root)
	initTree(t, again, known)
	var stay []string
	for _, at := range []name{podCgroup("known"), podCgroup("gone"), podCgroup("busy"), podCgroup("young"), other} {
		if again.existsAnywhere(at) {
			stay = append(stay, at[len(at)-1])
		}
	}
	if want := []string{"podknown", "podbusy", "podyoung", "other"}; !slices.Equal(stay, want) {
		t.Errorf("%v stay, want %v", stay, want)
	}
}
