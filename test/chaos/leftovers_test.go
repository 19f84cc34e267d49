//go:build chaos

package chaos

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

var (
	restarts = flag.Int("chaos.restarts", 0, "restarts of containers before what is left is counted; 0: the test's own")
	deleted  = flag.Int("chaos.deleted", 0, "pods that are deleted before what is left is counted; 0: the test's own")
	killed   = flag.Bool("chaos.kills", true, "kill the agent meanwhile, which cuts off calls of the runtime")
	within   = flag.Duration("chaos.within", maxLeftovers, "what is left is counted after so long at the latest")
)

const (
	crashers = 12
	// passing counts the pods that are added and deleted at a time.
	passing = 8
	// maxLeftovers bounds the run at full numbers: two cores restart ten containers a second.
	maxLeftovers = 100 * time.Minute
)

// everything returns a pod with every kind of thing that a pod can leave.
func everything(name, script string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return node.Pod(name, node.Image, script, node.Restarts(corev1.RestartPolicyAlways), func(p *corev1.Pod) {
		side := node.Shell("side", node.Image, node.Idle)
		side.RestartPolicy = &always
		p.Spec.InitContainers = []corev1.Container{node.Shell("init", node.Image, "echo init"), side}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			}},
			{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{
					Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
				}},
			}}},
		}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "disk", MountPath: "/disk", SubPath: "part"}, {Name: "memory", MountPath: "/memory"},
			{Name: "info", MountPath: "/info"},
		}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	})
}

// Containers restart and pods come and go, while the agent is killed and another client removes dead containers. Then
// nothing of them is left: on the runtime, behind it, on the host and on the disk.
func TestNothingIsLeftOver(t *testing.T) {
	r := choices(t)
	a := newAgent(t)
	l := placesOfLab(t)
	a.Start()
	before, err := a.count(l)
	must.OK(t, err)
	wantRestarts, wantDeleted := length{120, 10000}.now(), length{40, 1000}.now()
	if *restarts > 0 {
		wantRestarts = *restarts
	}
	if *deleted > 0 {
		wantDeleted = *deleted
	}
	for i := range crashers {
		name := fmt.Sprintf("crasher-%d", i)
		a.Put(name+".yaml", node.Manifest(everything(name, "echo ran; exit 1")))
	}
	gone, kills, done, begun := 0, 0, int32(0), time.Now()
	for gone < wantDeleted || done < int32(wantRestarts) {
		gone += a.pass(r)
		kills += a.sometimesKilled(r)
		done = a.restarted()
		if time.Now().After(begun.Add(*within)) {
			t.Errorf("not reached: %d restarts and %d deleted pods", wantRestarts, wantDeleted)
			break
		}
	}
	t.Logf("%d restarts, %d deleted pods, %d kills of the agent in %s", done, gone, kills,
		time.Since(begun).Round(time.Second))
	node.Eventually(t, time.Minute, "only what the crashing pods need", func() error { return a.fewOf(l) })
	for i := range crashers {
		a.Remove(fmt.Sprintf("crasher-%d.yaml", i))
	}
	node.Eventually(t, settle, "every pod to be gone", a.Gone)
	must.OK(t, collectGarbage())
	var now census
	defer func() { a.explain(now, before, l) }()
	node.Eventually(t, settle, "nothing to be left", func() error {
		var err error
		now, err = a.count(l)
		lost := len(now[lostShims]) - len(before[lostShims])
		if delete(now, lostShims); lost > 0 && kills == 0 {
			err = errors.Join(err, fmt.Errorf("containerd has lost %d shims, and nobody was killed", lost))
		}
		if kills > 0 {
			now.withoutGivenUp(l)
		}
		return errors.Join(err, now.beyond(before))
	})
}

// runcStates is the directory of the lab where runc keeps a directory with the state of each container.
const runcStates = "state/runc/k8s.io"

// withoutGivenUp takes out the states of runc that containerd says it could not clean up. Its caller was killed while
// it started the container: it removes the directory of the shim first, and cannot begin the clean-up there.
func (c census) withoutGivenUp(l labPlaces) {
	if len(c[runcStates]) == 0 {
		return
	}
	text, _ := os.ReadFile(l.log) // without it nothing is taken out
	var givenUp []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "failed to clean up after shim disconnected") {
			givenUp = append(givenUp, longID.FindString(line))
		}
	}
	c[runcStates] = slices.DeleteFunc(c[runcStates], func(id string) bool { return slices.Contains(givenUp, id) })
}

// explain logs everything that is left after a failure, and the last lines of containerd and of the agent that name it.
func (a *agent) explain(now, before census, l labPlaces) {
	if !a.T.Failed() {
		return
	}
	const last = 12
	containerd, _ := os.ReadFile(l.log) // what is left is logged all the same
	logs := []struct{ program, text string }{{"containerd", string(containerd)}, {"journalet", a.logged()}}
	for _, kind := range slices.Sorted(maps.Keys(now)) {
		for _, name := range now[kind] {
			if slices.Contains(before[kind], name) {
				continue
			}
			a.T.Logf("left of %s: %s", kind, name)
			id := longID.FindString(name)
			if id == "" {
				continue
			}
			for _, log := range logs {
				var lines []string
				for line := range strings.Lines(log.text) {
					if strings.Contains(line, id) {
						lines = append(lines, line)
					}
				}
				a.T.Logf("%s:\n%s", log.program, strings.Join(lines[max(0, len(lines)-last):], ""))
			}
		}
	}
}

// longID is the id of a sandbox or a container, as containerd creates it.
var longID = regexp.MustCompile("[0-9a-f]{64}")

// pass adds pods, waits for them unless they are to be deleted while they start, deletes them and returns their number.
func (a *agent) pass(r *rand.Rand) int {
	a.T.Helper()
	for i := range passing {
		name := fmt.Sprintf("passing-%d", i)
		a.Put(name+".yaml", node.Manifest(everything(name, node.Idle)))
	}
	if r.IntN(3) > 0 {
		node.Eventually(a.T, settle, "the pods to be ready", func() error {
			pods, err := a.Pods()
			ready := 0
			for _, p := range pods {
				if strings.HasPrefix(p.Name, "passing-") && node.Ready(&p) {
					ready++
				}
			}
			if err == nil && ready < passing {
				err = fmt.Errorf("%d of %d pods are ready", ready, passing)
			}
			return err
		})
	}
	a.removeDead(r)
	for i := range passing {
		a.Remove(fmt.Sprintf("passing-%d.yaml", i))
	}
	return passing
}

// removeDead removes one dead container as an operator with crictl does.
func (a *agent) removeDead(r *rand.Rand) {
	_, all, err := a.OnRuntime()
	if err != nil || len(all) == 0 {
		return
	}
	if c := all[r.IntN(len(all))]; c.GetState() == cri.ContainerState_CONTAINER_EXITED {
		ctx, cancel := node.Bounded()
		defer cancel()
		// The agent may have been faster.
		_, _ = setup.Runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.GetId()})
	}
}

// sometimesKilled kills the agent in one of three cases, and returns the number of kills.
func (a *agent) sometimesKilled(r *rand.Rand) int {
	if !*killed || r.IntN(3) > 0 {
		return 0
	}
	a.Kill()
	a.Spawn()
	a.Connect()
	return 1
}

// restarted returns the restarts of the crashing pods' containers.
func (a *agent) restarted() int32 {
	pods, err := a.Pods()
	must.OK(a.T, err)
	n := int32(0)
	for _, p := range pods {
		if strings.HasPrefix(p.Name, "crasher-") {
			n += node.Container(&p, "main").RestartCount
		}
	}
	return n
}

// fewOf returns an error if a container that restarts has kept more than its newest instance and the one before.
func (a *agent) fewOf(l labPlaces) error {
	now, err := a.count(l)
	const most = 2
	logOf := func(path string) string {
		if strings.Contains(filepath.Base(path), ".log") {
			return filepath.Dir(path)
		}
		return ""
	}
	linkOf := func(path string) string { return path[:strings.LastIndex(path, "-")+1] }
	messageOf := func(path string) string {
		if filepath.Base(filepath.Dir(filepath.Dir(path))) == "containers" {
			return filepath.Dir(path)
		}
		return ""
	}
	return errors.Join(err, now.perContainer("files of logs", logOf, most),
		now.perContainer("links to logs", linkOf, most),
		now.perContainer("files in the root directory", messageOf, most))
}
