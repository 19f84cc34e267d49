package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// recorded is a pod all of whose volumes are set up.
func recorded(pod *corev1.Pod) Recorded {
	r := Recorded{UID: string(pod.UID), Manifest: pod}
	for i := range pod.Spec.Volumes {
		r.SetUp = append(r.SetUp, pod.Spec.Volumes[i].Name)
	}
	return r
}

func lostNames(t *testing.T, d *Driver, boot string, pods ...Recorded) string {
	t.Helper()
	found, err := d.Reconcile(pods, boot)
	must.OK(t, err)
	var out []string
	for _, l := range found.Lost {
		out = append(out, l.GetUid()+": "+strings.Join(l.GetNames(), " "))
	}
	return strings.Join(out, "; ")
}

func TestLostVolumesAreFound(t *testing.T) {
	d, _, _ := newKernelTest(t)
	pod := podWith(secretVolume("keys", "keys"), emptyDir("mem", corev1.StorageMediumMemory, ""), emptyDir("disk", "", ""),
		configMapVolume("conf", "conf"), configMapVolume("link", "conf"), hostPath("/none", corev1.HostPathUnset),
		emptyDir("same", corev1.StorageMediumMemory, ""))
	must.OK(t, setUp(t, d, pod))
	must.OK(t, d.Reconciled("boot1"))
	if got := lostNames(t, d, "boot1", recorded(pod)); got != "" {
		t.Errorf("nothing is lost, but %s", got)
	}
	if got := lostNames(t, d, "boot2", recorded(pod)); got != "u1: conf link" {
		t.Errorf("after a reboot: %s", got)
	}
	must.OK(t, errors.Join(
		unix.Unmount(pathOf(t, d, pod, "keys"), 0), unix.Unmount(pathOf(t, d, pod, "mem"), 0),
		os.Remove(pathOf(t, d, pod, "disk")), os.Remove(filepath.Join(pathOf(t, d, pod, "link"), dataLink))))
	r := recorded(pod)
	if got := lostNames(t, d, "boot1", r); got != "u1: disk keys link mem" {
		t.Errorf("lost: %s", got)
	}
	r.SetUp = []string{"same", "keys", "nosuch"}
	if got := lostNames(t, d, "boot1", r, Recorded{UID: "u2", SetUp: []string{"x"}}); got != "u1: keys" {
		t.Errorf("lost of those that were set up: %s", got)
	}
	must.OK(t, setUp(t, d, pod))
	if got := lostNames(t, d, "boot1", recorded(pod)); got != "" {
		t.Errorf("set up again, but %s", got)
	}
}

func TestDirectoriesOfUnknownPodsAreFound(t *testing.T) {
	d, _, dir := newTest(t)
	for _, uid := range []string{"known", "gone", "also-gone", "had-gate"} {
		must.OK(t, d.CreatePodDirs(uid))
	}
	must.OK(t, d.WriteUserNamespace("own-users", &journaletv1.UserNamespace{HostId: 65536, Length: 65536}))
	_, err := d.CreateLogDir("default", "web", "only-logs", "main")
	must.OK(t, err)
	must.OK(t, d.CreatePodDirs("own-users"))
	pods := filepath.Join(dir, "pods")
	must.OK(t, errors.Join(
		os.RemoveAll(filepath.Join(pods, "also-gone/volumes")), // as by a tear-down that a crash has cut
		os.MkdirAll(filepath.Join(pods, "backup/volumes"), 0o700),
		os.WriteFile(filepath.Join(pods, "backup/notes"), nil, 0o600),
		os.Mkdir(filepath.Join(pods, "empty"), 0o700), os.Mkdir(filepath.Join(pods, "lost+found"), 0o700),
		os.WriteFile(filepath.Join(pods, "file"), nil, 0o600), os.Symlink("gone", filepath.Join(pods, "link")),
		os.MkdirAll(filepath.Join(pods, "gate"), 0o700),
		os.WriteFile(filepath.Join(pods, "gate/conditions.yaml"), nil, 0o600),
		os.WriteFile(filepath.Join(pods, "had-gate/conditions.yaml"), nil, 0o600)))
	found, err := d.Reconcile([]Recorded{{UID: "known"}, {UID: "had-gate", Gone: true}, {UID: "never", Gone: true}}, "b")
	must.OK(t, err)
	if !slices.Equal(found.Left, []string{"had-gate"}) {
		t.Errorf("left: %v", found.Left)
	}
	if !slices.Equal(found.Unknown, []string{"also-gone", "gone", "only-logs", "own-users"}) {
		t.Errorf("unknown: %v", found.Unknown)
	}
	if _, err := New(Options{RootDir: t.TempDir()}).Reconcile(nil, "b"); err != nil {
		t.Errorf("without a directory of pods: %v", err)
	}
}

// The agent restarts on a node with 300 mounts: none is mounted again, none is lost, and all go with their pods.
func TestRestartMountsNothingAgain(t *testing.T) {
	d, _, dir := newKernelTest(t)
	before := mountTableOf(t, dir)
	var pods []*corev1.Pod
	for i := range 100 {
		pod := podWith(secretVolume("keys", "keys"), emptyDir("mem", corev1.StorageMediumMemory, "1Mi"),
			configMapVolume("conf", "conf"), emptyDir("disk", "", ""), volumeOf("all", corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}},
				}}}}))
		pod.UID = types.UID(fmt.Sprintf("pod-%d", i))
		t.Cleanup(func() { must.OK(t, clean(context.Background(), d, string(pod.UID), "default", "web")) })
		must.OK(t, setUp(t, d, pod))
		pods = append(pods, pod)
	}
	must.OK(t, d.Reconciled("b"))
	mounted := mountTableOf(t, dir)
	if n := strings.Count(mounted, "\n"); n != 300 {
		t.Fatalf("%d mounts", n)
	}
	next := New(d.opts)
	var all []Recorded
	for _, pod := range pods {
		all = append(all, recorded(pod))
	}
	found, err := next.Reconcile(all, "b")
	must.OK(t, err)
	if len(found.Lost) > 0 || len(found.Unknown) > 0 {
		t.Errorf("found %v", found)
	}
	for _, pod := range pods { // a call in doubt is repeated
		must.OK(t, setUp(t, next, pod))
	}
	if got := mountTableOf(t, dir); got != mounted {
		t.Errorf("the mount table has changed:\n%s\nbefore\n%s", got, mounted)
	}
	for _, pod := range pods {
		must.OK(t, clean(t.Context(), next, string(pod.UID), "default", "web"))
	}
	if got := mountTableOf(t, dir); got != before {
		t.Errorf("mounts are left:\n%s", got)
	}
}
