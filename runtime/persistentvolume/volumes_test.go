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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
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

func TestInlineVolumeIsPublishedAndUnpublished(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	p := r.pod("p1", inline("data"))
	handle := inlineHandle("p1", "data")
	must.OK(t, r.setUp(p))
	path, err := r.Path("p1", "data")
	must.OK(t, err)
	if want := r.root + "/pods/p1/volumes/kubernetes.io~csi/data/mount"; path != want {
		t.Errorf("at %s, want %s", path, want)
	}
	must.OK(t, os.WriteFile(filepath.Join(path, "f"), []byte("x"), 0o600))
	if _, err := os.Stat(filepath.Join(r.fake.Dir, handle, "f")); err != nil {
		t.Error(err)
	}
	must.OK(t, r.setUp(p))
	r.expect("NodePublishVolume " + handle)
	must.OK(t, r.tearDown("p1"))
	must.OK(t, r.tearDown("p1"))
	r.expect("NodeUnpublishVolume " + handle)
	r.nothingLeft()
}

func TestVolumeIsStagedForTheFirstPodAndUnstagedAfterTheLast(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	vol := r.claimed("a")
	must.OK(t, r.setUp(r.pod("p1", vol)))
	must.OK(t, r.setUp(r.pod("p2", vol)))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a", "NodePublishVolume h-a")
	must.OK(t, r.tearDown("p1"))
	r.expect("NodeUnpublishVolume h-a")
	r.restart("boot-1") // what is claimed is on disk
	must.OK(t, r.tearDown("p2"))
	r.expect("NodeUnpublishVolume h-a", "NodeUnstageVolume h-a")
	r.nothingLeft()
}

func TestABlockDeviceIsPublishedAndUnpublished(t *testing.T) {
	for what, capabilities := range map[string][]csi.NodeServiceCapability_RPC_Type{
		"staged": {fakecsi.Stage}, "not staged": nil,
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, capabilities...)
			v := r.claimed("disk")
			r.volumes["pv-disk"].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
			p := r.pod("p1", v)
			p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To(int64(1234))}
			must.OK(t, r.setUp(p))
			path, err := r.Path("p1", "v-disk")
			must.OK(t, err)
			text := []byte("what a container writes")
			must.OK(t, os.WriteFile(path, text, 0))
			if b, err := os.ReadFile(r.fake.Image("h-disk")); err != nil || !strings.HasPrefix(string(b), string(text)) {
				t.Errorf("the device holds %.30q, %v", b, err)
			}
			r.restart("boot-1")
			if r.Lost("p1", "v-disk") {
				t.Error("it is lost after a restart")
			}
			must.OK(t, r.setUp(p))
			if all := fakecsi.Mounts(r.root); len(all) != 1 {
				t.Errorf("mounted are %v", all)
			}
			must.OK(t, r.tearDown("p1"))
			r.nothingLeft()
			if loop := fakecsi.Attached(r.fake.Image("h-disk")); loop != "" {
				t.Errorf("%s is left", loop)
			}
		})
	}
}

func TestADriverThatPublishesNoBlockDeviceIsNotBelieved(t *testing.T) {
	r := newRig(t)
	v := r.claimed("disk")
	r.volumes["pv-disk"].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	for what, publish := range map[string]func(target string) error{
		"nothing": func(string) error { return nil }, "a file": func(target string) error {
			return os.WriteFile(target, nil, 0o600)
		},
		"another device": func(target string) error { return os.Symlink("/dev/null", target) },
		"a directory":    func(target string) error { return os.Mkdir(target, 0o700) },
	} {
		r.fake.Before = func(_ context.Context, rpc string, req any) error {
			if x, is := req.(*csi.NodePublishVolumeRequest); is {
				must.OK(t, publish(x.GetTargetPath()))
				return fakecsi.ErrNothingDone
			}
			return nil
		}
		if err := r.setUp(r.pod("p1", v)); err == nil || !strings.Contains(err.Error(), "there is no block device") {
			t.Errorf("%s: %v", what, err)
		}
		must.OK(t, r.tearDown("p1"))
		r.nothingLeft()
	}
}

func TestAVolumeIsUsedAsWhatItIs(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{
		VolumeMounts:  []corev1.VolumeMount{{Name: "files"}},
		VolumeDevices: []corev1.VolumeDevice{{Name: "disk"}},
	}}}}
	for _, c := range []struct {
		volume string
		block  bool
		want   string
	}{
		{"files", false, ""}, {"disk", true, ""}, {"unused", true, ""}, {"unused", false, ""},
		{"files", true, "volume files has volumeMode Block, but is specified in volumeMounts"},
		{"disk", false, "volume disk has volumeMode Filesystem, but is specified in volumeDevices"},
	} {
		if err := checkUse(pod, c.volume, c.block); c.want == "" && err != nil ||
			c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s, block %t: %v, want %q", c.volume, c.block, err, c.want)
		}
	}
}

func TestTwoVolumesOfAPodMayBeOneClaim(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	one := r.claimed("a")
	two := one
	two.Name = "again"
	must.OK(t, r.setUp(r.pod("p1", one, two)))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	a, err := r.Path("p1", one.Name)
	must.OK(t, err)
	if b, err := r.Path("p1", two.Name); err != nil || a != b {
		t.Errorf("at %s and %s: %v", a, b, err)
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

// The agent may be killed before and after each RPC, and at each the RPC may have had its effect or not.
func TestNothingIsMountedTwiceOrLeftAfterACrash(t *testing.T) {
	rpcs := []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}
	for _, rpc := range rpcs {
		for _, done := range []bool{false, true} {
			for _, end := range []bool{false, true} {
				r := newRig(t, fakecsi.Stage)
				p := r.pod("p1", r.claimed("a"))
				crashed := false
				crash := func(_ context.Context, at string, _ any) error {
					if at == rpc && !crashed {
						crashed = true
						return status.Error(codes.Unavailable, "the connection is gone")
					}
					return nil
				}
				if r.fake.Before = crash; done {
					r.fake.Before, r.fake.After = nil, crash
				}
				if err := r.setUp(p); err != nil {
					r.restart("boot-1")
					if !end { // else the pod is deleted meanwhile
						must.OK(t, r.setUp(p))
					}
				}
				if n := len(fakecsi.Mounts(r.root)); n > 2 {
					t.Errorf("%s, done %t: %d mounts, want at most 2", rpc, done, n)
				}
				if err := r.tearDown("p1"); err != nil {
					r.restart("boot-1")
					must.OK(t, r.tearDown("p1"))
				}
				r.unstageLeft(t.Context())
				if !crashed {
					t.Errorf("%s was not called", rpc)
				}
				r.nothingLeft()
			}
		}
	}
}

func TestARefusedVolumeIsNotUnpublished(t *testing.T) {
	r := newRig(t)
	r.fake.Before = func(context.Context, string, any) error { return status.Error(codes.InvalidArgument, "no such type") }
	if err := r.setUp(r.pod("p1", inline("data"))); err == nil || !strings.Contains(err.Error(), "no such type") {
		t.Errorf("got %v", err)
	}
	r.fake.Calls()
	r.drivers.Deregister(driverName, r.socket)
	must.OK(t, r.tearDown("p1"))
	r.expect()
	r.nothingLeft()
}

func TestAVolumeOfAnotherBootIsLostAndSetUpAgain(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	p := r.pod("p1", r.claimed("a"))
	must.OK(t, r.setUp(p))
	if r.Lost("p1", "v-a") {
		t.Error("lost before the reboot")
	}
	r.fake.Calls()
	r.reboot()
	if !r.Lost("p1", "v-a") {
		t.Error("not lost after a reboot")
	}
	must.OK(t, r.setUp(p))
	r.expect("NodeStageVolume h-a", "NodePublishVolume h-a")
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestAnUnmountedVolumeIsLost(t *testing.T) {
	r := newRig(t)
	p := r.pod("p1", inline("data"))
	must.OK(t, r.setUp(p))
	fakecsi.Clean(r.root)
	if !r.Lost("p1", "data") {
		t.Error("not lost")
	}
}

func TestADriverThatLiesAboutUnpublishingIsNotBelieved(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.setUp(r.pod("p1", inline("data"))))
	target, err := r.Path("p1", "data")
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(target, "precious"), nil, 0o600))
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		if u, ok := req.(*csi.NodeUnpublishVolumeRequest); ok {
			u.TargetPath = filepath.Join(filepath.Dir(r.root), "elsewhere")
		}
		return nil
	}
	if err := r.tearDown("p1"); err == nil || !strings.Contains(err.Error(), "still mounted") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(target, "precious")); err != nil {
		t.Error(err)
	}
	r.fake.Before = nil
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestADriverThatHangsHoldsUpOnlyItsVolume(t *testing.T) {
	r := newRig(t)
	hung := inlineHandle("p1", "data")
	began := make(chan struct{})
	r.fake.Before = func(ctx context.Context, _ string, req any) error {
		if p, ok := req.(*csi.NodePublishVolumeRequest); ok && p.GetVolumeId() == hung {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		p := r.pod("p1", inline("data"))
		failed <- r.SetUp(ctx, p, &p.Spec.Volumes[0])
	}()
	<-began
	must.OK(t, r.setUp(r.pod("p2", inline("data"))))
	cancel()
	if err := <-failed; err == nil {
		t.Error("a call that was cancelled has succeeded")
	}
	must.OK(t, r.tearDown("p2"))
	r.fake.Before = nil
	must.OK(t, r.tearDown("p1")) // in doubt: it is unpublished
	r.nothingLeft()
}

func TestAVolumeIsInUseFromTheWaitForItsAttachmentToItsEnd(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	r.driver.Spec.AttachRequired, r.attachInUse = nil, true
	vol := r.claimed("a")
	k := key{driverName, "h-a"}
	r.attachment = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: k.attachment(nodeName)},
		Status: storagev1.VolumeAttachmentStatus{
			Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/x1"},
		},
	}
	var published map[string]string
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		if p, ok := req.(*csi.NodePublishVolumeRequest); ok {
			published = p.GetPublishContext()
		}
		return nil
	}
	must.OK(t, r.setUp(r.pod("p1", vol)))
	if want := []string{"kubernetes.io/csi/" + driverName + "^h-a"}; !slices.Equal(r.cluster.inUse[0], want) {
		t.Errorf("in use: %v, want %v", r.cluster.inUse, want)
	}
	if published["device"] != "/dev/x1" {
		t.Errorf("publish context: %v", published)
	}
	b, err := os.ReadFile(filepath.Join(r.podDir("p1"), "pv-a", recordFile))
	must.OK(t, err)
	if strings.Contains(string(b), "/dev/x1") {
		t.Errorf("the record has the publish context: %s", b)
	}
	r.cluster.inUse = nil
	r.restart("boot-1")
	if len(r.cluster.inUse) != 1 || len(r.cluster.inUse[0]) != 1 {
		t.Errorf("in use after a restart: %v", r.cluster.inUse)
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

// A CSIDriver that comes after the pod may say that nothing is to be attached.
func TestAVolumeThatIsNotAttachedAnyMoreIsNotInUse(t *testing.T) {
	r := newRig(t, fakecsi.Stage)
	r.driver.Spec.AttachRequired = nil
	vol := r.claimed("a")
	p := r.pod("p1", vol)
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := r.SetUp(ctx, p, &vol); err == nil || len(r.cluster.inUse) != 1 || len(r.cluster.inUse[0]) != 1 {
		t.Fatalf("got %v, in use %v, want the volume to be waited for", err, r.cluster.inUse)
	}
	r.driver.Spec.AttachRequired = ptr.To(false)
	must.OK(t, r.setUp(p))
	if in := r.cluster.inUse; len(in) != 2 || len(in[1]) > 0 {
		t.Errorf("in use: %v, want it to be taken out: nothing else would detach it", in)
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestSecretsThatAreNoTextAreRefusedByName(t *testing.T) {
	r := newRig(t)
	calls := 0
	r.fake.Before = func(context.Context, string, any) error { calls++; return nil }
	vol := inline("data")
	vol.CSI.NodePublishSecretRef = &corev1.LocalObjectReference{Name: "s"}
	r.cluster.secretEnd = "\xff\xfe"
	err := r.setUp(r.pod("p1", vol))
	if err == nil || strings.Contains(err.Error(), secretText) || calls != 0 ||
		!strings.Contains(err.Error(), "key password of Secret default/s has bytes that are not UTF-8") {
		t.Errorf("got %v after %d calls of the driver", err, calls)
	}
	r.cluster.secretEnd = ""
	must.OK(t, r.setUp(r.pod("p1", vol)))
}

func TestADriverGetsPodInfoTokensAndSecretsAndNoErrorRepeatsThem(t *testing.T) {
	r := newRig(t)
	r.driver.Spec.PodInfoOnMount = ptr.To(true)
	r.driver.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	var got *csi.NodePublishVolumeRequest
	r.fake.Before = func(_ context.Context, _ string, req any) error {
		got = req.(*csi.NodePublishVolumeRequest)
		return status.Errorf(codes.Internal, "login with %s and %s failed", secretText, "token-for-vault")
	}
	vol := inline("data")
	vol.CSI.NodePublishSecretRef = &corev1.LocalObjectReference{Name: "s"}
	err := r.setUp(r.pod("p1", vol))
	if err == nil || strings.Contains(err.Error(), secretText) || strings.Contains(err.Error(), "token-for") ||
		!strings.Contains(err.Error(), "failed") {
		t.Errorf("got %v", err)
	}
	if got.GetSecrets()["password"] != secretText || got.GetVolumeContext()["csi.storage.k8s.io/pod.name"] != "p1" ||
		got.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] != "true" ||
		!strings.Contains(got.GetVolumeContext()[tokensKey], `"vault":{"token":"token-for-vault"`) {
		t.Errorf("got %v", got)
	}
	_ = filepath.WalkDir(r.root, func(path string, e os.DirEntry, _ error) error {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), secretText) {
			t.Errorf("%s has the secret", path)
		}
		return nil
	})
}

func TestVolumesThatCannotBeSetUpSayWhy(t *testing.T) {
	r := newRig(t)
	for want, change := range map[string]func(v *corev1.Volume){
		"PVC default/a is not bound": func(*corev1.Volume) { r.pvcs["a"].Status.Phase = corev1.ClaimPending },
		"is of another kind":         func(*corev1.Volume) { r.volumes["pv-a"].Spec.CSI = nil },
		"is bound to another claim":  func(*corev1.Volume) { r.volumes["pv-a"].Spec.ClaimRef.UID = "other" },
		"not found in the list of registered CSI drivers": func(*corev1.Volume) {
			r.volumes["pv-a"].Spec.CSI.Driver = "other.example.com"
		},
		`"../x" cannot be the name of a driver`: func(*corev1.Volume) { r.volumes["pv-a"].Spec.CSI.Driver = "../x" },
		"handle of 0 bytes":                     func(*corev1.Volume) { r.volumes["pv-a"].Spec.CSI.VolumeHandle = "" },
		"no CSIDriver object": func(v *corev1.Volume) {
			*v = inline("data")
			r.driver = nil
		},
	} {
		before := r.driver
		v := r.claimed("a")
		change(&v)
		if err := r.setUp(r.pod("p1", v)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		r.driver = before
	}
	r.expect()
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestADamagedRecordIsReportedAndNothingIsRemoved(t *testing.T) {
	r := newRig(t)
	must.OK(t, r.setUp(r.pod("p1", inline("data"), inline("other"))))
	file := filepath.Join(r.podDir("p1"), "data", recordFile)
	for _, garbage := range []string{"", "{", `{"driverName":"../../x","volumeHandle":"h","specVolID":"v"}`} {
		must.OK(t, os.WriteFile(file, []byte(garbage), 0o600))
		r.restart("boot-1")
		if err := r.tearDown("p1"); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got %v", err)
		}
	}
	if left := fakecsi.Mounts(r.root); len(left) != 1 { // the other volume is gone
		t.Errorf("mounts: %v", left)
	}
}

func TestFSGroupOwnsTheVolumeAndNoLinkIsFollowed(t *testing.T) {
	r := newRig(t)
	r.driver.Spec.FSGroupPolicy = ptr.To(storagev1.FileFSGroupPolicy)
	outside := filepath.Join(filepath.Dir(r.root), "outside")
	must.OK(t, os.WriteFile(outside, nil, 0o600))
	dir := filepath.Join(r.fake.Dir, inlineHandle("p1", "data"))
	must.OK(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, "sub", "f"), nil, 0o600))
	must.OK(t, os.Symlink(outside, filepath.Join(dir, "link")))
	p := r.pod("p1", inline("data"))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To(int64(1234))}
	must.OK(t, r.setUp(p))
	for path, mode := range map[string]os.FileMode{
		dir: os.ModeDir | os.ModeSetgid | 0o770, filepath.Join(dir, "sub"): os.ModeDir | os.ModeSetgid | 0o770,
		filepath.Join(dir, "sub", "f"): 0o660,
	} {
		info, err := os.Lstat(path)
		must.OK(t, err)
		if info.Mode() != mode || gid(info) != 1234 {
			t.Errorf("%s: %v of group %d, want %v of 1234", path, info.Mode(), gid(info), mode)
		}
	}
	info, err := os.Lstat(outside)
	must.OK(t, err)
	if info.Mode() != 0o600 || gid(info) == 1234 {
		t.Errorf("a link was followed: %v of group %d", info.Mode(), gid(info))
	}
	must.OK(t, r.tearDown("p1"))
}

func gid(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Gid }
