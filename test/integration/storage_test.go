//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// The limits of ephemeral storage on a real disk, with the kubelet's messages. A pod within them runs on.
func TestPodBeyondItsStorageLimitIsEvicted(t *testing.T) {
	t.Parallel()
	quota := func(limit string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceEphemeralStorage: resource.MustParse(limit),
			}
		}
	}
	volume := func(p *corev1.Pod) {
		limit := resource.MustParse("2Mi")
		p.Spec.Volumes[0].EmptyDir.SizeLimit = &limit
	}
	write := func(file, mebibytes string) string {
		return "dd if=/dev/zero of=" + file + " bs=1M count=" + mebibytes + "; " + idle
	}
	pods := onePod("volume", write("/v/f", "3"), scratch, volume)
	for name, text := range map[string]map[string]string{
		"layer":  onePod("layer", write("/f", "3"), quota("2Mi")),
		"logs":   onePod("logs", "dd if=/dev/zero bs=1M count=3 | tr '\\0' '\\n'; "+idle, quota("2Mi")),
		"within": onePod("within", write("/v/f", "1"), scratch, volume, quota("20Mi")),
	} {
		for file, manifest := range text {
			pods[name+file] = manifest
		}
	}
	a := started(t, pods)
	total := "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
	for name, want := range map[string]string{
		"volume": `Usage of EmptyDir volume "v" exceeds the limit "2Mi". `, "layer": total, "logs": total,
	} {
		p := a.pod(name, "evicted", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
		if p.Status.Reason != "Evicted" || p.Status.Message != want {
			t.Errorf("%s: %s %q, want Evicted %q", name, p.Status.Reason, p.Status.Message, want)
		}
	}
	if p := a.podNow("within"); !ready(p) || container(p, "main").RestartCount != 0 {
		t.Errorf("within its limits: %+v", p.Status)
	}
	a.Verified()
}

// notOnDisk are types of file systems that take nothing of the node's disk.
var notOnDisk = []string{
	"tmpfs", "ramfs", "hugetlbfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "devtmpfs",
}

// writable returns the paths of a container that its mount table shows as writable and on a disk of the node.
func writable(t *testing.T, p *corev1.Pod) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(readFile(t, fmt.Sprintf("/proc/%d/mountinfo", processOf(t, p)))) {
		mount, source, _ := strings.Cut(line, " - ")
		m, s := strings.Fields(mount), strings.Fields(source)
		options := strings.Split(m[5], ",")
		if !slices.Contains(options, "ro") && !slices.Contains(notOnDisk, s[0]) {
			out = append(out, m[4])
		}
	}
	slices.Sort(out)
	return out
}

// processOf returns the process of a pod's container main.
func processOf(t *testing.T, p *corev1.Pod) int {
	t.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	_, id, _ := strings.Cut(container(p, "main").ContainerID, "://")
	st, err := setup.Runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	must.OK(t, err)
	var info struct{ PID int }
	must.OK(t, json.Unmarshal([]byte(st.GetInfo()["info"]), &info))
	return info.PID
}

// fill writes 3 MiB to a path of a pod's container, into the file or into a new one in the directory.
func fill(t *testing.T, p *corev1.Pod, path string) {
	t.Helper()
	path = filepath.Join(fmt.Sprintf("/proc/%d/root", processOf(t, p)), path)
	info, err := os.Stat(path)
	must.OK(t, err)
	if info.IsDir() {
		path = filepath.Join(path, "fill")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must.OK(t, err)
	_, err = f.Write(make([]byte, 3<<20))
	must.OK(t, errors.Join(err, f.Close()))
}

// Whatever the mount table of a container shows as writable and on the node's disk is the pod's, or counts: a pod that
// fills it is evicted. None but hostPath volumes may be left out.
func TestEachWritablePlaceOfTheMountTableCounts(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.volumes = map[string]struct{}{"/declared": {}}
	image := h.image("places:1")
	h.push(image, idlerLayer(t))
	limited := func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Mi")}
		c.TerminationMessagePath = "/messages/last"
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: "v", MountPath: "/messages"},
			corev1.VolumeMount{Name: "v", MountPath: "/sub", SubPath: "below/v"},
			corev1.VolumeMount{Name: "memory", MountPath: "/memory"})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "memory", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
		}})
	}
	podFiles := func(name string) map[string]string {
		return onePod(name, "", scratch, limited, runs(image, corev1.PullIfNotPresent))
	}
	a := started(t, podFiles("first"))
	places := writable(t, a.pod("first", "ready", ready))
	t.Logf("writable places: %q", places)
	for _, known := range []string{"/", "/v", "/sub", "/messages", "/messages/last", "/declared", "/etc/hosts",
		"/etc/hostname", "/etc/resolv.conf"} {
		if !slices.Contains(places, known) {
			t.Errorf("%s is none of the writable places %q", known, places)
		}
	}
	for i, place := range places {
		for file, text := range podFiles(fmt.Sprint("place-", i)) {
			a.Put(file, text)
		}
		fill(t, a.pod(fmt.Sprint("place-", i), "ready to fill "+place, ready), place)
	}
	for i, place := range places {
		p := a.pod(fmt.Sprint("place-", i), "evicted after it filled "+place, func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodFailed
		})
		if p.Status.Reason != "Evicted" {
			t.Errorf("%s: %s %q", place, p.Status.Reason, p.Status.Message)
		}
	}
	if p := a.podNow("first"); !ready(p) {
		t.Errorf("the pod that fills nothing: %+v", p.Status)
	}
	a.Verified()
}
