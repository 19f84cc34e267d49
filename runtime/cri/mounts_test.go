package cri_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/pod/subpath"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

// recorder keeps the last request to create a container.
type recorder struct {
	grpc.ClientConnInterface
	created *runtimeapi.CreateContainerRequest
}

func (r *recorder) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	if req, ok := in.(*runtimeapi.CreateContainerRequest); ok {
		r.created = req
	}
	return r.ClientConnInterface.Invoke(ctx, method, in, out, opts...)
}

// subPaths mounts nothing: it returns the paths that it would mount.
type subPaths struct {
	cri.Volumes
	err error
}

func (s subPaths) MountSubPath(_ *corev1.Pod, container string, index int, volume, path string) (string, error) {
	return fmt.Sprintf("/subpaths/%s/%s/%d/%s", volume, container, index, path), s.err
}

// Check takes each volume for set up that has its directory.
func (s subPaths) Check(_ context.Context, pod *corev1.Pod, name string) error {
	path, err := s.Path(pod, name)
	if err != nil || !strings.Contains(path, "/root/pods/") {
		return nil
	}
	_, err = os.Lstat(path)
	return err
}

// mountRig returns a rig and a recorder that shows the rig's requests.
func mountRig(t *testing.T, err error) (*rig, *recorder) {
	t.Helper()
	rec := &recorder{}
	r := newRig(t, func(o *cri.Options) {
		rec.ClientConnInterface = o.Conn
		o.Conn, o.Volumes = rec, subPaths{o.Volumes, err}
	})
	r.pod.Annotations = map[string]string{"a": "b"}
	r.pod.Spec.Volumes = append(r.pod.Spec.Volumes,
		corev1.Volume{Name: "oci", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: "docker.io/library/files:1"}}},
		corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/some/where"}}})
	r.pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "EMPTY"}}
	return r, rec
}

func TestMountsAreThoseOfTheKubelet(t *testing.T) {
	only, possible := corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible
	r, rec := mountRig(t, nil)
	sandbox := r.sandbox()
	r.done("pull", pullImage("docker.io/library/files:1"), false)
	r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "scratch", MountPath: "relative", SubPath: "a/b"},
		{Name: "scratch", MountPath: "/x", SubPathExpr: "$(A)/$$(A)", ReadOnly: true, RecursiveReadOnly: &only},
		{Name: "host", MountPath: "/y", ReadOnly: true, RecursiveReadOnly: &possible},
		{Name: "oci", MountPath: "/z", SubPath: "dir"},
	}
	r.done("c", startContainer(sandbox, 0), false)
	image := rec.created.GetConfig().GetMounts()[3].GetImage()
	if image.GetImage() == "" {
		t.Error("the image volume has no image")
	}
	want := []*runtimeapi.Mount{
		{ContainerPath: "/relative", HostPath: "/subpaths/scratch/main/0/a/b"},
		{ContainerPath: "/x", HostPath: "/subpaths/scratch/main/1/1/$(A)", Readonly: true, RecursiveReadOnly: true},
		{ContainerPath: "/y", HostPath: "/some/where", Readonly: true, RecursiveReadOnly: true},
		{ContainerPath: "/z", ImageSubPath: "dir", Readonly: true, Image: &runtimeapi.ImageSpec{Image: image.GetImage(),
			UserSpecifiedImage: "docker.io/library/files:1", Annotations: map[string]string{"a": "b"}}},
	}
	for i := range want {
		if got := rec.created.GetConfig().GetMounts()[i]; !proto.Equal(got, want[i]) {
			t.Errorf("mount %d is\n%v, want\n%v", i, got, want[i])
		}
	}
	// A handler without the feature.
	r.pod.Annotations[manifest.RuntimeHandlerAnnotation] = "other"
	r.pod.Spec.Containers[0].VolumeMounts = r.pod.Spec.Containers[0].VolumeMounts[2:]
	r.done("d", startContainer(sandbox, 1), false)
	if rec.created.GetConfig().GetMounts()[0].GetRecursiveReadOnly() {
		t.Error("recursively read-only without the runtime's support")
	}
	if got := rec.created.GetConfig().GetMounts()[1].GetImage().GetRuntimeHandler(); got != "other" {
		t.Errorf("the image volume has handler %q", got)
	}
}

func TestMountsFailWithTheKubeletsMessages(t *testing.T) {
	only := corev1.RecursiveReadOnlyEnabled
	hostToContainer, odd := corev1.MountPropagationHostToContainer, corev1.MountPropagationMode("Odd")
	for name, c := range map[string]struct {
		mount corev1.VolumeMount
		err   error
		says  string
	}{
		"absolute": {corev1.VolumeMount{SubPath: "/a"}, nil, "error SubPath `/a` must not be an absolute path"},
		"up": {corev1.VolumeMount{SubPathExpr: "$(A)/../b"}, nil,
			"unable to provision SubPath `1/../b`: must not contain '..'"},
		"missing": {corev1.VolumeMount{SubPathExpr: "$(Z)/$(EMPTY)/$(Z)"}, nil, "missing value for EMPTY, Z"},
		"long":    {corev1.VolumeMount{SubPathExpr: strings.Repeat("$(A)x", 1<<16)}, nil, "subPathExpr has more than"},
		"prepare": {corev1.VolumeMount{SubPath: "a"}, errors.New("/etc/shadow: no"),
			`failed to prepare subPath for volumeMount "scratch" of container "main"`},
		"create": {corev1.VolumeMount{SubPath: "a"}, subpath.ErrCreate,
			`failed to create subPath directory for volumeMount "scratch" of container "main"`},
		"writable": {corev1.VolumeMount{RecursiveReadOnly: &only}, nil,
			`volume "scratch" requested recursive read-only mode, but it is not read-only`},
		"shared": {corev1.VolumeMount{RecursiveReadOnly: &only, ReadOnly: true, MountPropagation: &hostToContainer}, nil,
			`but it is not compatible with propagation "HostToContainer"`},
		"unsupported": {corev1.VolumeMount{RecursiveReadOnly: &only, ReadOnly: true}, nil,
			"but it is not supported by the runtime"},
		"propagation": {corev1.VolumeMount{MountPropagation: &odd}, nil, `mountPropagation "Odd" is unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			r, rec := mountRig(t, c.err)
			sandbox := r.sandbox()
			r.pod.Annotations[manifest.RuntimeHandlerAnnotation] = "other"
			c.mount.Name, c.mount.MountPath = "scratch", "/x"
			r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{c.mount}
			out := r.fails("c", startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_CONFIG, c.says)
			if rec.created != nil || strings.Contains(out.GetMessage(), "shadow") {
				t.Errorf("created %v after %q", rec.created, out.GetMessage())
			}
		})
	}
}

func TestBlockDevicesArePassedAsByTheKubelet(t *testing.T) {
	r, rec := mountRig(t, nil)
	dir := t.TempDir()
	disk, file := filepath.Join(dir, "disk"), filepath.Join(dir, "file")
	must.OK(t, unix.Mknod(disk, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0)))) // as root
	must.OK(t, os.WriteFile(file, nil, 0o600))
	volumes := len(r.pod.Spec.Volumes)
	for name, path := range map[string]string{"disk": disk, "file": file, "null": "/dev/null", "none": "/none"} {
		r.pod.Spec.Volumes = append(r.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
	if len(r.pod.Spec.Volumes) != volumes+4 {
		t.Fatal("the pod lacks volumes")
	}
	sandbox := r.sandbox()
	pass := func(name string) {
		r.pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: name, DevicePath: "/dev/data"}}
	}
	for _, name := range []string{"file", "null", "none"} {
		pass(name)
		says := fmt.Sprintf("volume %q is no block device on the node", name)
		r.fails(name, startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_VOLUME, says)
	}
	pass("disk")
	r.done("c", startContainer(sandbox, 0), false)
	got := rec.created.GetConfig().GetDevices()
	want := &runtimeapi.Device{ContainerPath: "/dev/data", HostPath: disk, Permissions: "mrw"}
	if len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("devices %v, want %v", got, want)
	}
}

func TestMissingImageOfVolumeIsNamed(t *testing.T) {
	r, _ := mountRig(t, nil)
	sandbox := r.sandbox()
	r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "oci", MountPath: "/z"}}
	const reference = "docker.io/library/files:1"
	start := startContainer(sandbox, 0)
	start.GetStartContainer().PulledForStart = true // of the container's own image
	out := r.fails("c", start, journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, reference)
	if out.GetMissingVolumeImage() != reference || !out.GetRetryable() {
		t.Errorf("outcome %v", out)
	}
	start.GetStartContainer().PulledVolumeImages = []string{reference}
	out = r.fails("d", start, journaletv1.CallError_CALL_ERROR_CREATE, "was pulled, but the runtime does not have it")
	if out.GetMissingVolumeImage() != "" {
		t.Errorf("outcome %v", out)
	}
	r.pod.Spec.Containers[0].Image = "docker.io/library/none:1"
	out = r.fails("e", startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, "none:1")
	if out.GetMissingVolumeImage() != "" {
		t.Errorf("the container's own image is taken for a volume's: %v", out)
	}
}

func TestContentsOfTheAgentAreMountedReadOnly(t *testing.T) {
	for name, source := range map[string]corev1.VolumeSource{
		"configmap":    {ConfigMap: &corev1.ConfigMapVolumeSource{}},
		"secret":       {Secret: &corev1.SecretVolumeSource{}},
		"downward-api": {DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		"projected":    {Projected: &corev1.ProjectedVolumeSource{}},
	} {
		r, rec := mountRig(t, nil)
		sandbox := r.sandbox()
		r.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		must.OK(t, os.MkdirAll(filepath.Join(r.dir, "root/pods", uid, "volumes/kubernetes.io~"+name, "v"), 0o700))
		r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		r.done("c", startContainer(sandbox, 0), false)
		if m := rec.created.GetConfig().GetMounts()[0]; !m.GetReadonly() || m.GetRecursiveReadOnly() {
			t.Errorf("%s: mount %v", name, m)
		}
	}
}

func TestAnExportIsMountedAsItsVolumeSays(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		r, rec := mountRig(t, nil)
		sandbox := r.sandbox()
		r.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/", ReadOnly: readOnly}}}}
		path := filepath.Join(r.dir, "root/pods", uid, "volumes/kubernetes.io~nfs/v")
		r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		if out := r.perform("b", startContainer(sandbox, 0), false); !out.GetRetryable() ||
			!strings.Contains(out.GetMessage(), `volume "v" is not set up`) {
			t.Errorf("before its set-up: %v", out)
		}
		must.OK(t, os.MkdirAll(path, 0o700))
		r.done("c", startContainer(sandbox, 0), false)
		if m := rec.created.GetConfig().GetMounts()[0]; m.GetReadonly() != readOnly || m.GetHostPath() != path {
			t.Errorf("mount %v", m)
		}
	}
}

func TestAStartWithoutTheFilesOfADevicePluginCreatesNothing(t *testing.T) {
	r := newRig(t, nil)
	req, missing := startContainer(r.sandbox(), 0), filepath.Join(r.dir, "driver.so")
	answer := &journaletv1.DeviceAnswer{Mounts: []*journaletv1.DeviceMount{{ContainerPath: "/m", HostPath: missing}}}
	req.GetStartContainer().Devices = []*journaletv1.ContainerDevices{{Resource: "example.com/gpu", Answer: answer}}
	r.fails("c", req, journaletv1.CallError_CALL_ERROR_CONFIG, "example.com/gpu")
	if all := r.containers(); len(all) != 0 {
		t.Errorf("containers %v", all)
	}
	must.OK(t, os.WriteFile(missing, nil, 0o600))
	r.done("d", req, false)
}

// The runtime creates a directory for a mount whose source is missing.
func TestAStartNamesTheVolumesThatAreGone(t *testing.T) {
	r := newRig(t, nil)
	sandbox, kind := r.sandbox(), corev1.HostPathSocket
	path := filepath.Join(r.dir, "d.sock")
	r.pod.Spec.Volumes = append(r.pod.Spec.Volumes, corev1.Volume{Name: "sock", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
	}})
	r.pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "scratch", MountPath: "/scratch"}, {Name: "sock", MountPath: "/d.sock"}, {Name: "sock", MountPath: "/again"},
	}
	out := r.perform("c", startContainer(sandbox, 0), false)
	if out.GetError() != journaletv1.CallError_CALL_ERROR_VOLUME || !out.GetRetryable() ||
		!strings.Contains(out.GetMessage(), path+" is not a socket file") {
		t.Errorf("the start ends in %v", out)
	}
	if len(out.GetVolumes()) != 1 || out.GetVolumes()[0].GetName() != "sock" {
		t.Errorf("gone are %v", out.GetVolumes())
	}
	l, err := net.Listen("unix", path)
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r.done("d", startContainer(sandbox, 0), false)
}
