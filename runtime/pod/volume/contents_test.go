package volume

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/must"
)

// store is a store of objects, all of namespace default.
type store struct {
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
	token      string
	away       bool // the API server, which gave the pod its token before
	bundle     []byte

	certificate *objects.Certificate
}

func (s *store) ConfigMap(_ context.Context, owner objects.Owner, name string) (*corev1.ConfigMap, error) {
	if c := s.configMaps[name]; c != nil && owner.Namespace == "default" {
		return c, nil
	}
	return nil, fmt.Errorf("configmap %q %w", name, objects.ErrNotFound)
}

func (s *store) Secret(_ context.Context, owner objects.Owner, name string) (*corev1.Secret, error) {
	if c := s.secrets[name]; c != nil && owner.Namespace == "default" {
		return c, nil
	}
	return nil, fmt.Errorf("secret %q %w", name, objects.ErrNotFound)
}

func (s *store) Token(
	context.Context, *corev1.Pod, *corev1.ServiceAccountTokenProjection,
) (string, error) {
	if s.away {
		return "", objects.ErrAway
	}
	if s.token == "" {
		return "", fmt.Errorf("token of service account %q %w", "default", objects.ErrNotFound)
	}
	return s.token, nil
}

func (s *store) TrustBundle(context.Context, objects.Owner, *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	if s.bundle == nil {
		return nil, fmt.Errorf("clustertrustbundle %q %w", "ca", objects.ErrNotFound)
	}
	return s.bundle, nil
}

func (s *store) Certificate(_ context.Context, _ *corev1.Pod, volume string, i int) (*objects.Certificate, error) {
	if s.certificate == nil {
		return nil, fmt.Errorf("credential bundle is not issued yet for %s %d", volume, i)
	}
	return s.certificate, nil
}

func testStore() *store {
	return &store{
		configMaps: map[string]*corev1.ConfigMap{"conf": {
			Data: map[string]string{"a": "A", "b": "B"}, BinaryData: map[string][]byte{"bin": {0, 1}},
		}},
		secrets: map[string]*corev1.Secret{"keys": {Data: map[string][]byte{"key": []byte("K"), "cert": []byte("C")}}},
		token:   "T", bundle: []byte("PEM"),
	}
}

// newKernelTest returns a driver that mounts, and its root directory.
func newKernelTest(t *testing.T) (*Driver, *store, string) {
	t.Helper()
	dir := t.TempDir()
	s := testStore()
	d := New(Options{RootDir: dir, PodLogDir: filepath.Join(dir, "logs"), ContainerLogDir: filepath.Join(dir, "links"),
		Objects: s, AllocatableMemory: 64 << 20,
		Allocatable: func() corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		}})
	t.Cleanup(func() { must.OK(t, clean(context.Background(), d, "u1", "default", "web")) })
	return d, s, dir
}

// group returns a group that the test may give files to: only 0 in a user namespace of one id.
func group(t *testing.T) int64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	must.OK(t, os.WriteFile(path, nil, 0o600))
	if os.Chown(path, -1, 2000) == nil {
		return 2000
	}
	return 0
}

func ptr[T any](v T) *T { return &v }

func volumeOf(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func configMapVolume(name, object string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: object},
	}})
}

func secretVolume(name, object string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: object}})
}

// tree returns what a container sees in a volume: each path with mode, owner and content.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	data, err := filepath.EvalSymlinks(filepath.Join(dir, dataLink))
	must.OK(t, err)
	must.OK(t, filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: no stat", path)
		}
		rel, _ := filepath.Rel(data, path)
		fmt.Fprintf(&out, "%s %s %d:%d", rel, info.Mode(), st.Uid, st.Gid)
		if e.Type().IsRegular() {
			// Read as a container does, through the links.
			content, err := os.ReadFile(filepath.Join(dir, rel))
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %q", content)
		}
		out.WriteString("\n")
		return nil
	}))
	return out.String()
}

func expectTree(t *testing.T, dir, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimLeft(want, "\n"), "\t", "")
	if got := tree(t, dir); got != want {
		t.Errorf("%s has\n%swant\n%s", dir, got, want)
	}
}

func pathOf(t *testing.T, d *Driver, pod *corev1.Pod, name string) string {
	t.Helper()
	path, err := d.Path(pod, name)
	must.OK(t, err)
	return path
}

func TestFilesOfVolumesAreTheObjects(t *testing.T) {
	d, _, dir := newKernelTest(t)
	items := configMapVolume("items", "conf")
	items.ConfigMap.Items = []corev1.KeyToPath{
		{Key: "a", Path: "sub/deep/x"}, {Key: "bin", Path: "y", Mode: ptr(int32(0o400))},
	}
	items.ConfigMap.DefaultMode = ptr(int32(0o640))
	optional := secretVolume("optional", "none")
	optional.Secret.Optional = ptr(true)
	down := volumeOf("down", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}},
		}}})
	all := volumeOf("all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"},
			Items: []corev1.KeyToPath{{Key: "key", Path: "a"}}}},
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr("ca"), Path: "ca/bundle.pem"}},
	}}})
	pod := podWith(configMapVolume("conf", "conf"), items, secretVolume("keys", "keys"), optional, down, all)
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	defer syscall.Umask(syscall.Umask(0o077))
	must.OK(t, setUp(t, d, pod))
	const stamp = ". drwxr-xr-x 0:0\n"
	for name, want := range map[string]string{
		"conf": stamp + "a -rw-r--r-- 0:0 \"A\"\nb -rw-r--r-- 0:0 \"B\"\nbin -rw-r--r-- 0:0 \"\\x00\\x01\"\n",
		"items": stamp + "sub drwxr-xr-x 0:0\nsub/deep drwxr-xr-x 0:0\nsub/deep/x -rw-r----- 0:0 \"A\"\n" +
			"y -r-------- 0:0 \"\\x00\\x01\"\n",
		"keys": stamp + "cert -rw-r--r-- 0:0 \"C\"\nkey -rw-r--r-- 0:0 \"K\"\n", "optional": stamp,
		"down": stamp + "cpu -rw-r--r-- 0:0 \"4\"\nlabels -rw-r--r-- 0:0 \"app=\\\"web\\\"\\ntier=\\\"front\\\"\"\n",
		"all": stamp + "a -rw-r--r-- 0:0 \"K\"\nb -rw-r--r-- 0:0 \"B\"\nbin -rw-r--r-- 0:0 \"\\x00\\x01\"\n" +
			"ca drwxr-xr-x 0:0\nca/bundle.pem -rw-r--r-- 0:0 \"PEM\"\ntoken -rw-r--r-- 0:0 \"T\"\n",
	} {
		expectTree(t, pathOf(t, d, pod, name), want)
	}
	for name, kind := range map[string]string{"conf": "", "keys": tmpfs, "down": tmpfs, "all": tmpfs} {
		got, err := d.mounts.kindAt(pathOf(t, d, pod, name))
		if err != nil || got != kind {
			t.Errorf("volume %s is a mount of %q, %v", name, got, err)
		}
	}
	want := filepath.Join(dir, "pods/u1/volumes/kubernetes.io~downward-api/down")
	if got := pathOf(t, d, pod, "down"); got != want {
		t.Errorf("the path is %s", got)
	}
}

func TestFsGroupMayReadFilesAndWriteEmptyDirs(t *testing.T) {
	d, _, _ := newKernelTest(t)
	g := group(t)
	pod := podWith(configMapVolume("conf", "conf"), secretVolume("keys", "keys"), emptyDir("disk", "", ""),
		emptyDir("mem", corev1.StorageMediumMemory, ""))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &g}
	for i := range pod.Spec.Volumes[:2] {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil {
			v.Secret.DefaultMode = ptr(int32(0o400))
		}
	}
	must.OK(t, setUp(t, d, pod))
	expectTree(t, pathOf(t, d, pod, "keys"), fmt.Sprintf(
		". dgrwxr-xr-x 0:%d\ncert -r--r----- 0:%[1]d \"C\"\nkey -r--r----- 0:%[1]d \"K\"\n", g))
	for name, want := range map[string]string{
		"conf": "dgrwxrwxrwx", "disk": "dgrwxrwxrwx", "mem": "dgtrwxrwxrwx", "keys": "dgtrwxrwxrwx",
	} {
		info, err := os.Lstat(pathOf(t, d, pod, name))
		must.OK(t, err)
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int64(st.Gid) != g || info.Mode().String() != want {
			t.Errorf("volume %s is %s of group %d", name, info.Mode(), st.Gid)
		}
	}
}

func TestTokenIsOfItsUserOnly(t *testing.T) {
	d, _, _ := newKernelTest(t)
	user := int64(0)
	pod := podWith(volumeOf("token", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}))
	pod.Spec.Containers = []corev1.Container{{Name: "c"}, {Name: "d"}}
	for i := range pod.Spec.Containers {
		if userOf(pod) != nil {
			t.Error("a user, though not every container has one")
		}
		pod.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
	}
	must.OK(t, setUp(t, d, pod))
	expectTree(t, pathOf(t, d, pod, "token"), ". drwxr-xr-x 0:0\nt -rw------- 0:0 \"T\"\n")
	pod.Spec.Containers[1].SecurityContext.RunAsUser = ptr(int64(7))
	if userOf(pod) != nil {
		t.Error("a user, though the containers differ")
	}
}

// The kubelet's files of a podCertificate source: all that the manifest names, with the owner of a token's.
func TestFilesOfACertificate(t *testing.T) {
	s := testStore()
	d := &Driver{opts: Options{Objects: s}}
	source := &corev1.PodCertificateProjection{CredentialBundlePath: "tls/all.pem", CertificateChainPath: "chain"}
	v := volumeOf("tls", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr(int32(0o440)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}, {PodCertificate: source},
		}}})
	pod := podWith(v)
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	_, err := d.contentsOf(t.Context(), pod, &v)
	if err == nil || err.Error() != "credential bundle is not issued yet for tls 1" {
		t.Error(err)
	}
	s.certificate = &objects.Certificate{Key: []byte("K\n"), Chain: []byte("C\n")}
	for _, c := range []struct {
		user *int64
		key  string
		want map[string]string
	}{
		{nil, "", map[string]string{"tls/all.pem": "K\nC\n -r--r-----", "chain": "C\n -r--r-----", "token": "T -r--r-----"}},
		{ptr(int64(7)), "key", map[string]string{"tls/all.pem": "K\nC\n -rw-------", "chain": "C\n -rw-------",
			"key": "K\n -rw-------", "token": "T -rw-------"}},
		{nil, "chain", map[string]string{"tls/all.pem": "K\nC\n -r--r-----", "chain": "C\n -r--r-----",
			"token": "T -r--r-----"}},
	} {
		pod.Spec.Containers[0].SecurityContext, source.KeyPath = &corev1.SecurityContext{RunAsUser: c.user}, c.key
		files, err := d.contentsOf(t.Context(), pod, &v)
		must.OK(t, err)
		got := map[string]string{}
		for path, f := range files {
			got[path] = fmt.Sprint(string(f.data), " ", f.mode)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("files are %q, want %q", got, c.want)
		}
	}
}

func TestPodWithoutTheAPIServerKeepsItsTokenOrRunsWithoutOnceItRan(t *testing.T) {
	d, s, _ := newKernelTest(t)
	pod := podWith(volumeOf("token", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}))
	s.away = true
	if err := setUp(t, d, pod); !strings.Contains(fmt.Sprint(err), "had no token before") {
		t.Errorf("a pod that never ran is set up without its token: %v", err)
	}
	s.away = false
	must.OK(t, setUp(t, d, pod))
	s.away = true
	must.OK(t, setUp(t, d, pod))
	expectTree(t, pathOf(t, d, pod, "token"), ". drwxr-xr-x 0:0\nt -rw-r--r-- 0:0 \"T\"\n")

	d, s, _ = newKernelTest(t) // after a reboot
	s.away = true
	_, err := d.CreateTerminationFile(string(pod.UID), "main", 0)
	must.OK(t, err)
	must.OK(t, setUp(t, d, pod))
	expectTree(t, pathOf(t, d, pod, "token"), ". drwxr-xr-x 0:0\n")
}

func TestFailureOfOneVolumeIsItsOwn(t *testing.T) {
	d, s, _ := newKernelTest(t)
	key := configMapVolume("key", "conf")
	key.ConfigMap.Items = []corev1.KeyToPath{{Key: "nokey", Path: "x"}}
	escapes := secretVolume("escapes", "keys")
	escapes.Secret.Items = []corev1.KeyToPath{{Key: "key", Path: "../x"}}
	two := volumeOf("two", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "n1"}}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "n2"}}},
	}}})
	iscsi := volumeOf("iscsi", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}})
	pod := podWith(key, escapes, two, iscsi, configMapVolume("good", "conf"))
	want := map[string]string{
		"key":     `MountVolume.SetUp failed for volume "key" : configmap references non-existent config key: nokey`,
		"escapes": `MountVolume.SetUp failed for volume "escapes" : invalid path: must not contain '..': ../x`,
		"two":     `MountVolume.SetUp failed for volume "two" : [configmap "n1" not found, secret "n2" not found]`,
		"iscsi": `MountVolume.SetUp failed for volume "iscsi" : volume "iscsi" is of a kind that this node cannot set up; ` +
			`use ` + supportedKinds,
		"good": "",
	}
	for _, o := range d.SetUp(t.Context(), pod, nil) {
		if o.GetMessage() != want[o.GetName()] || o.GetRetryable() != (o.GetName() != "iscsi" && o.GetName() != "good") {
			t.Errorf("%v", o)
		}
	}
	s.configMaps["conf"].Data["nokey"] = "now"
	for _, o := range d.SetUp(t.Context(), pod, nil) {
		if o.GetName() == "key" && o.GetMessage() != "" {
			t.Errorf("%v", o)
		}
	}
	d.opts.Objects = nil
	err := setUp(t, d, podWith(secretVolume("s", "keys")))
	if err == nil || !strings.Contains(err.Error(), "has no ConfigMaps") {
		t.Errorf("without a store: %v", err)
	}
}
