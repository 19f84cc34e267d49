package persistentvolume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

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
