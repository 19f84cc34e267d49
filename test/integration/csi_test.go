//go:build integration

package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	csiName   = "disk.example.com"
	csiHandle = "disk-1"
)

// storage is a cluster with a CSI driver: an API server in memory, and what attaches volumes.
type storage struct {
	*agent
	api    *fakeapi.Server
	driver *fakecsi.Process
}

// newStorage prepares an agent of a cluster, and starts the driver.
func newStorage(t *testing.T) *storage {
	t.Helper()
	s := &storage{agent: newAgent(t), api: fakeapi.New()}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must.OK(t, os.WriteFile(kubeconfig, []byte(fakeapi.Kubeconfig(s.api.Start(t), "{}")), 0o600))
	cert, key := authority.Write(t, dir, authority.New(t).Server(t))
	s.Flags = append(s.Flags, "--kubeconfig", kubeconfig, "--kube-api-content-type", "application/json",
		"--address", "127.0.0.1", "--port", strconv.Itoa(node.Port(t)),
		"--tls-cert-file", cert, "--tls-private-key-file", key)
	s.driver = &fakecsi.Process{Name: csiName, Root: s.Root, Dir: filepath.Join(s.Dir, "volumes"), Stage: true}
	s.driver.Start(t)
	t.Cleanup(func() { s.api.SetDown(true) }) // the agent of a failed test outlives the server
	s.api.Create("csidrivers.storage.k8s.io", &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: csiName},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
				storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
			},
		},
	})
	return s
}

// claim adds a claim of a volume of the driver, and returns the volume of a pod for it.
func (s *storage) claim(name string, change ...func(*corev1.PersistentVolume)) corev1.VolumeSource {
	uid := s.api.Create("persistentvolumeclaims", &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	})
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:    &corev1.ObjectReference{UID: types.UID(uid)},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: csiName, VolumeHandle: csiHandle,
			}},
		},
	}
	for _, f := range change {
		f(pv)
	}
	s.api.Create("persistentvolumes", pv)
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// attach attaches a volume to the Node once the Node has it in use, as the control plane does.
func (s *storage) attach(attachment string) {
	s.T.Helper()
	name := corev1.UniqueVolumeName("kubernetes.io/csi/" + csiName + "^" + csiHandle)
	var n corev1.Node
	node.Eventually(s.T, settle, "the volume to be in use", func() error {
		if !s.api.Get("nodes", "", s.Node, &n) || !slices.Contains(n.Status.VolumesInUse, name) {
			return fmt.Errorf("in use are %v", n.Status.VolumesInUse)
		}
		return nil
	})
	s.api.Create("volumeattachments.storage.k8s.io", &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachment}, Status: storagev1.VolumeAttachmentStatus{Attached: true},
	})
	s.api.Change("nodes", "status", "", s.Node, &n, func() {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: name}}
	})
}

// run creates a pod with a volume at /v that is bound to the node.
func (s *storage) run(name, script string, source corev1.VolumeSource, change ...func(*corev1.Pod)) {
	s.T.Helper()
	p := newPod(name, script, scratch)
	p.Spec.NodeName, p.UID = s.Node, uuid.NewUUID() // the server's are the same in each run, and the runtime is shared
	p.Spec.Volumes[0].VolumeSource = source
	for _, f := range change {
		f(p)
	}
	s.api.Create("pods", p)
}

// restartAll kills the driver and the agent, and starts both again.
func (s *storage) restartAll() {
	s.T.Helper()
	s.driver.Kill()
	s.Kill()
	s.driver.Start(s.T)
	s.start()
}

// mounted waits for so many mounts of volumes of the driver.
func (s *storage) mounted(n int) {
	s.T.Helper()
	node.Eventually(s.T, settle, fmt.Sprintf("%d volumes to be mounted", n), func() error {
		if all := s.mounts(); len(all) != n {
			return fmt.Errorf("mounted are %v", all)
		}
		return nil
	})
}

// mounts returns what is mounted of volumes of the driver, staged or published; containers have mounts of their own.
func (s *storage) mounts() []string {
	return slices.Concat(fakecsi.Mounts(filepath.Join(s.Root, "pods")), fakecsi.Mounts(filepath.Join(s.Root, "plugins")))
}

// deleted deletes a pod and waits until the API server has it no more.
func (s *storage) deleted(name string) {
	s.T.Helper()
	s.api.Delete("pods", "default", name, 1)
	s.ended(name)
}

func (s *storage) ended(name string) {
	s.T.Helper()
	node.Eventually(s.T, settle, name+" to be gone", func() error {
		var p corev1.Pod
		if s.api.Get("pods", "default", name, &p) {
			return fmt.Errorf("%s: %+v", p.Status.Phase, p.Status.Conditions)
		}
		return nil
	})
}

// nothingLeft checks that nothing of a volume is left: no mount, no directory, nothing in use.
func (s *storage) nothingLeft() {
	s.T.Helper()
	eventually(s.T, settle, "every pod to be gone", s.Gone)
	// A pod does not wait for the unstage of its volume.
	node.Eventually(s.T, settle, "no mount and no directory of a volume to be left", func() error {
		if all := s.mounts(); len(all) > 0 {
			return fmt.Errorf("mounted are %v", all)
		}
		for _, pattern := range []string{"pods/*/volumes/kubernetes.io~csi", "plugins/kubernetes.io/csi/*/*"} {
			if all, err := filepath.Glob(filepath.Join(s.Root, pattern)); err != nil || len(all) > 0 {
				return fmt.Errorf("left are %v (%v)", all, err) //nolint:errorlint // it may be nil
			}
		}
		return nil
	})
	node.Eventually(s.T, settle, "no volume to be in use", func() error {
		var n corev1.Node
		if !s.api.Get("nodes", "", s.Node, &n) || len(n.Status.VolumesInUse) > 0 {
			return fmt.Errorf("in use are %v", n.Status.VolumesInUse)
		}
		return nil
	})
}

// An agent of a cluster on a real runtime, with a driver that is a process. Both are killed after each step of a volume
// has taken effect and before anybody knows that it has.
func TestVolumesOfACSIDriverOverKillsOfItAndOfTheAgent(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	s.start()
	attachment := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(csiHandle+csiName+s.Node)))

	s.driver.Hold(t, "NodeStageVolume")
	s.run("claimed", "echo claimed >/v/file; "+idle, s.claim("data"))
	s.attach(attachment)
	s.mounted(1)
	s.driver.Hold(t, "NodePublishVolume")
	s.driver.Release(t, "NodeStageVolume") // this call is answered
	s.mounted(2)
	s.restartAll()
	s.mounted(2)
	s.driver.Release(t, "NodePublishVolume")
	s.pod("claimed", "ready", ready)
	s.mounted(2)

	inline := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: csiName}}
	s.run("inline", "echo inline >/v/file; cat /v/file; "+idle, inline)
	p := s.pod("inline", "ready", ready)
	s.mounted(3)
	s.measured("claimed")
	s.unchangedByARestart()
	handle := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(p.UID)+p.Spec.Volumes[0].Name)))
	for volume, want := range map[string]string{csiHandle: "claimed\n", handle: "inline\n"} {
		if b, err := os.ReadFile(filepath.Join(s.driver.Volume(volume), "file")); err != nil || string(b) != want {
			t.Errorf("volume %s holds %q, %v; want %q", volume, b, err, want)
		}
	}

	s.driver.Hold(t, "NodeUnpublishVolume")
	s.driver.Hold(t, "NodeUnstageVolume")
	s.api.Delete("pods", "default", "claimed", 1)
	s.mounted(2)
	s.restartAll()
	s.driver.Release(t, "NodeUnpublishVolume")
	s.mounted(1)
	s.restartAll()
	s.driver.Release(t, "NodeUnstageVolume")
	s.ended("claimed")
	s.deleted("inline")
	s.nothingLeft()
	s.Verified()
}

// measured checks that the Summary and the metrics have what the driver has measured.
func (s *storage) measured(pod string) {
	s.T.Helper()
	eventually(s.T, settle, "the volume in the Summary", func() error {
		_, stats := s.summary(pod)
		if stats == nil || len(stats.VolumeStats) != 1 {
			return fmt.Errorf("it has %+v", stats)
		}
		v, want := stats.VolumeStats[0], fakecsi.Measured[0]
		if v.PVCRef == nil || v.PVCRef.Name != "data" || *v.UsedBytes != uint64(want.GetUsed()) ||
			*v.CapacityBytes != uint64(want.GetTotal()) {
			return fmt.Errorf("it has %+v, %+v", v, v.PVCRef)
		}
		series := fmt.Sprintf(`kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="data"} %d`+"\n",
			want.GetUsed())
		if body := s.get("/metrics"); !strings.Contains(body, series) {
			return fmt.Errorf("no series %s in the metrics", series)
		}
		return nil
	})
}

// A container reads and writes a block device, over kills of the driver and of the agent.
func TestBlockDeviceOfACSIDriver(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	s.start()
	block := corev1.PersistentVolumeBlock
	source := s.claim("disk", func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = &block })
	s.driver.Hold(t, "NodePublishVolume")
	s.run("disk", "printf written | dd of=/dev/data bs=512 conv=sync,fsync && "+idle, source, func(p *corev1.Pod) {
		p.Spec.Containers[0].VolumeMounts = nil
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/data"}}
	})
	s.attach(fmt.Sprintf("csi-%x", sha256.Sum256([]byte(csiHandle+csiName+s.Node))))
	s.mounted(1)
	s.restartAll()
	s.driver.Release(t, "NodePublishVolume")
	s.pod("disk", "ready", ready)
	node.Eventually(t, settle, "the device to be written", func() error {
		b, err := os.ReadFile(s.driver.Volume(csiHandle + ".img"))
		if err == nil && !strings.HasPrefix(string(b), "written") {
			err = fmt.Errorf("it begins with %.16q", b)
		}
		return err
	})
	s.unchangedByARestart()
	s.mounted(1)
	s.deleted("disk")
	s.nothingLeft()
	if loop := fakecsi.Attached(s.driver.Volume(csiHandle + ".img")); loop != "" {
		t.Errorf("the loop device %s is left", loop)
	}
	s.Verified()
}

// A local volume of the node, which has no driver.
func TestLocalVolumeOfTheNode(t *testing.T) {
	t.Parallel()
	s := newStorage(t)
	s.start()
	dir := t.TempDir()
	source := s.claim("data", func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI, pv.Spec.Local = nil, &corev1.LocalVolumeSource{Path: dir}
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{s.Node},
			}}}},
		}}
	})
	s.run("local", "echo local >/v/file; "+idle, source)
	s.pod("local", "ready", ready)
	s.mounted(1)
	s.unchangedByARestart()
	s.deleted("local")
	s.nothingLeft()
	if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "local\n" {
		t.Errorf("the volume holds %q, %v", b, err)
	}
	s.Verified()
}

// unchangedByARestart kills the driver and the agent, and checks that the pods run on and nothing is mounted again.
func (s *storage) unchangedByARestart() {
	s.T.Helper()
	before, mounts := s.fingerprint(), s.mounts()
	s.restartAll()
	s.unchanged(before, "a restart")
	if now := s.mounts(); !slices.Equal(mounts, now) {
		s.T.Errorf("a restart has changed what is mounted from %v to %v", mounts, now)
	}
}
