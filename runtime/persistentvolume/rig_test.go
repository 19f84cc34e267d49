package persistentvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/pod/disk"
	"github.com/journalet/journalet/runtime/pod/nfs"
	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

const (
	driverName = "disk.example.com"
	nodeName   = "n1"
	secretText = "a-very-secret-value"
)

// cluster has the objects of a test, and the Node.
type cluster struct {
	secretEnd   string // what is behind the secret's text
	mu          sync.Mutex
	driver      *storagev1.CSIDriver
	attachment  *storagev1.VolumeAttachment
	pvcs        map[string]*corev1.PersistentVolumeClaim
	volumes     map[string]*corev1.PersistentVolume
	node        *corev1.Node
	inUse       [][]string
	attachInUse bool // the control plane attaches what is in use
	running     map[string]*corev1.Pod
	events      []string
	patches     []string // of claims
	tokens      int      // that were requested
	lifetime    time.Duration
	clock       *stopwatch
}

// stopwatch is a clock that a test moves.
type stopwatch struct {
	mu    sync.Mutex
	now   time.Time
	rings map[int]func()
	set   int
}

func (c *stopwatch) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stopwatch) AfterFunc(_ time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set++
	n := c.set
	c.rings[n] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, pending := c.rings[n]
		delete(c.rings, n)
		return pending
	}
}

// ring calls what waits for the clock, and returns how many did.
func (c *stopwatch) ring() int {
	c.mu.Lock()
	all := c.rings
	c.rings = map[int]func(){}
	c.mu.Unlock()
	for _, f := range all {
		f()
	}
	return len(all)
}

func (c *stopwatch) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *cluster) Pod(uid string) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[uid]
}

func (c *cluster) Event(about corev1.ObjectReference, kind, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, strings.Join([]string{about.Kind, about.Name, kind, reason, message}, " "))
}

// emitted returns the events, and forgets them.
func (c *cluster) emitted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.events
	c.events = nil
	return all
}

func missing(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func (c *cluster) Claim(_ context.Context, _, name string) (*corev1.PersistentVolumeClaim, error) {
	if o := c.pvcs[name]; o != nil {
		return o, nil
	}
	return nil, missing("persistentvolumeclaims", name)
}

func (c *cluster) PatchClaim(_ context.Context, _, name string, patch []byte) (*corev1.PersistentVolumeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.pvcs[name]
	b, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	after := &corev1.PersistentVolumeClaim{}
	if b, err = strategicpatch.StrategicMergePatch(b, patch, after); err == nil {
		err = json.Unmarshal(b, after)
	}
	if err == nil && after.ResourceVersion != before.ResourceVersion {
		err = apierrors.NewConflict(schema.GroupResource{Resource: "persistentvolumeclaims"}, name, nil)
	}
	if err != nil {
		return nil, err
	}
	after.ResourceVersion += "1"
	c.patches = append(c.patches, string(patch))
	c.pvcs[name] = after
	return after, nil
}

func (c *cluster) Volume(_ context.Context, name string) (*corev1.PersistentVolume, error) {
	if o := c.volumes[name]; o != nil {
		return o, nil
	}
	return nil, missing("persistentvolumes", name)
}

func (c *cluster) Driver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	if c.driver != nil {
		return c.driver, nil
	}
	return nil, missing("csidrivers", name)
}

func (c *cluster) Attachment(_ context.Context, name string) (*storagev1.VolumeAttachment, error) {
	if a := c.attachment; a != nil && a.Name == name {
		return a, nil
	}
	return nil, missing("volumeattachments", name)
}

func (c *cluster) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return &corev1.Secret{Data: map[string][]byte{"password": []byte(secretText + c.secretEnd)}}, nil
}

func (c *cluster) Token(
	_ context.Context, _ *corev1.Pod, r storagev1.TokenRequest,
) (authenticationv1.TokenRequestStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens++
	status := authenticationv1.TokenRequestStatus{Token: "token-for-" + r.Audience}
	if c.lifetime != 0 {
		status.Token = fmt.Sprintf("token-%d-for-%s", c.tokens, r.Audience)
		status.ExpirationTimestamp = metav1.NewTime(c.clock.Now().Add(c.lifetime))
	}
	return status, nil
}

func (c *cluster) SetVolumesInUse(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse = append(c.inUse, names)
	n := &corev1.Node{}
	for _, name := range names {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, corev1.UniqueVolumeName(name))
		if c.attachInUse {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached,
				corev1.AttachedVolume{Name: corev1.UniqueVolumeName(name)})
		}
	}
	c.node = n
}

func (c *cluster) Node() *corev1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node
}

// rig is a node with a CSI driver.
type rig struct {
	*cluster
	t       *testing.T
	root    string
	fake    *fakecsi.Driver
	socket  string
	drivers *Drivers
	mounter *nfs.Mounter // nil: the node's
	disks   *disk.Mounter
	seLinux func(*corev1.SELinuxOptions) (string, error)
	*Volumes
}

func newConn(path string, maxBytes int) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBytes)))
}

func newRig(t *testing.T, capabilities ...csi.NodeServiceCapability_RPC_Type) *rig {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	t.Cleanup(func() { fakecsi.Clean(dir) })
	r := &rig{
		t: t, root: filepath.Join(dir, "root"),
		fake: &fakecsi.Driver{Dir: filepath.Join(dir, "volumes"), Capabilities: capabilities},
		cluster: &cluster{
			running: map[string]*corev1.Pod{}, clock: &stopwatch{now: time.Unix(1e9, 0), rings: map[int]func(){}},
			pvcs: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
			driver: &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{
				AttachRequired:       ptr.To(false),
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
			}},
		},
	}
	r.socket, _ = fakecsi.Start(t, r.fake, dir)
	r.restart("boot-1")
	return r
}

// restart replaces what the agent has in memory, as its end and next start do.
func (r *rig) restart(boot string) {
	r.t.Helper()
	r.drivers = NewDrivers(DriverOptions{NewConn: newConn})
	must.OK(r.t, r.drivers.Register(r.t.Context(), driverName, r.socket))
	v, err := New(Options{
		RootDir: r.root, NodeName: nodeName, BootID: boot, Drivers: r.drivers, Objects: r.cluster, Node: r.cluster,
		Pod: r.Pod, Event: r.Event, Clock: r.clock, NFS: r.mounter, SELinux: r.seLinux,
		Disks: r.disks,
	})
	must.OK(r.t, err)
	r.Volumes = v
}

// reboot unmounts everything and restarts.
func (r *rig) reboot() {
	fakecsi.Clean(r.root)
	r.restart("boot-2")
}

func (r *rig) pod(uid string, volumes ...corev1.Volume) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Volumes: volumes},
	}
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	r.running[uid] = p
	return p
}

func inline(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName}}}
}

// claimed adds a claim with its volume.
func (r *rig) claimed(name string) corev1.Volume {
	r.pvcs[name] = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("claim-" + name), ResourceVersion: "7",
		},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	r.volumes["pv-"+name] = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{UID: types.UID("claim-" + name)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: "h-" + name,
			}},
		},
	}
	return corev1.Volume{Name: "v-" + name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

func (r *rig) setUp(p *corev1.Pod) error {
	var errs []error
	for i := range p.Spec.Volumes {
		errs = append(errs, r.SetUp(r.t.Context(), p, &p.Spec.Volumes[i]))
	}
	return errors.Join(errs...)
}

// reads fails unless a pod finds in a volume the file that the test has put there.
func (r *rig) reads(uid, volume string) {
	r.t.Helper()
	path, err := r.Path(uid, volume)
	must.OK(r.t, err)
	if b, err := os.ReadFile(filepath.Join(path, "file")); err != nil || string(b) != "kept" {
		r.t.Errorf("%s reads %q, %v", uid, b, err)
	}
}

func (r *rig) tearDown(uid string) error {
	r.t.Helper()
	all, err := r.TearDown(r.t.Context(), uid)
	must.OK(r.t, err)
	var errs []error
	for _, o := range all {
		errs = append(errs, o.Err)
	}
	return errors.Join(errs...)
}

// refuses fails unless the set-up of a volume fails for a reason, and its removal leaves nothing.
func (r *rig) refuses(v corev1.Volume, want string) {
	r.t.Helper()
	if err := r.setUp(r.pod("p1", v)); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("got %v, want %q", err, want)
	}
	must.OK(r.t, r.tearDown("p1"))
	r.nothingLeft()
}

// nothingLeft fails if a mount or a record is left.
func (r *rig) nothingLeft() {
	r.t.Helper()
	if left := fakecsi.Mounts(r.root); len(left) > 0 {
		r.t.Errorf("mounts left: %v", left)
	}
	images, _ := filepath.Glob(r.fake.Image("*")) // the pattern is valid
	for _, image := range images {
		if loop := fakecsi.Attached(image); loop != "" {
			r.t.Errorf("%s is left", loop)
		}
	}
	_ = filepath.WalkDir(r.root, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			r.t.Errorf("left: %s", path)
		}
		return nil
	})
	if in := r.cluster.inUse; len(in) > 0 && len(in[len(in)-1]) > 0 {
		r.t.Errorf("still in use: %v", in[len(in)-1])
	}
}

func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.fake.Calls(); !slices.Equal(got, want) {
		r.t.Errorf("calls\n got %q\nwant %q", got, want)
	}
}

func gid(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Gid }
