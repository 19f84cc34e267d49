package persistentvolume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// labeled is a rig on a node with SELinux, whose driver mounts with a label. options are the options of each mount so
// far.
func labeled(t *testing.T) (r *rig, options *[]string) {
	t.Helper()
	r = newRig(t, fakecsi.Stage)
	r.driver.Spec.SELinuxMount = ptr.To(true)
	r.seLinux = func(o *corev1.SELinuxOptions) (string, error) {
		if o.Type == "none" {
			return "", errors.New("no such type")
		}
		return "system_u:object_r:container_file_t:" + o.Level, nil
	}
	r.restart("boot-1")
	options = new([]string)
	r.fake.Before = func(_ context.Context, rpc string, req any) error {
		if m, is := req.(interface {
			GetVolumeCapability() *csi.VolumeCapability
		}); is {
			*options = append(*options, rpc+" "+strings.Join(m.GetVolumeCapability().GetMount().GetMountFlags(), ","))
		}
		return nil
	}
	return r, options
}

// labeledPod has a container for each level that mounts the volume; an empty level: with no options of its own.
func (r *rig) labeledPod(uid string, v corev1.Volume, levels ...string) *corev1.Pod {
	p := r.pod(uid, v)
	for _, level := range levels {
		c := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: v.Name, MountPath: "/data"}}}
		if level != "" {
			c.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: level}}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func TestAVolumeIsMountedWithTheLabelOfItsPods(t *testing.T) {
	r, options := labeled(t)
	r.driver.Spec.RequiresRepublish = ptr.To(true)
	v := r.claimed("data")
	r.volumes["pv-data"].Spec.MountOptions = []string{"noatime"}
	first := r.labeledPod("p1", v, "s0:c1,c2", "", "s0:c1,c2")
	second := r.labeledPod("p2", v, "")
	second.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1,c2"}}
	must.OK(t, r.setUp(first))
	r.refreshAll()
	must.OK(t, r.setUp(second))
	const with = `noatime,context="system_u:object_r:container_file_t:s0:c1,c2"`
	want := append([]string{"NodeStageVolume " + with}, slices.Repeat([]string{"NodePublishVolume " + with}, 3)...)
	if !slices.Equal(*options, want) {
		t.Errorf("mounted with\n got %q\nwant %q", *options, want)
	}
	if r.Relabels("p1", v.Name) {
		t.Error("its files are labeled one by one, too")
	}

	r.restart("boot-1")
	other := r.labeledPod("p3", v, "s0:c7")
	recursive := r.labeledPod("p4", v, "s0:c1,c2")
	recursive.Spec.SecurityContext = &corev1.PodSecurityContext{
		SELinuxChangePolicy: ptr.To(corev1.SELinuxChangePolicyRecursive),
	}
	for _, p := range []*corev1.Pod{other, recursive} {
		if err := r.setUp(p); err == nil || !strings.Contains(err.Error(), "conflicting SELinux labels of volume pv-data") {
			t.Errorf("beside another label: %v", err)
		}
	}
	must.OK(t, r.tearDown("p1"))
	must.OK(t, r.tearDown("p2"))
	r.fake.Calls()
	*options = nil
	must.OK(t, r.setUp(other))
	if !strings.HasSuffix((*options)[0], `:s0:c7"`) {
		t.Errorf("mounted with %q", *options)
	}
	r.reboot()
	must.OK(t, r.setUp(recursive)) // the mount of the boot before is gone
	if !r.Relabels("p4", v.Name) {
		t.Error("its files get no label")
	}
	for _, uid := range []string{"p3", "p4"} {
		must.OK(t, r.tearDown(uid))
	}
	r.nothingLeft()
}

// The first pod has a claim, and its staging has failed; the second one comes and goes.
func TestAVolumeThatWasStagedWithAnotherLabelIsStagedAgain(t *testing.T) {
	r, options := labeled(t)
	v := r.claimed("data")
	first, second := r.labeledPod("p1", v, "s0:c1"), r.labeledPod("p2", v, "s0:c2")
	before := r.fake.Before
	r.fake.Before = func(context.Context, string, any) error { return errors.New("no") }
	if r.setUp(first) == nil {
		t.Fatal("it is set up")
	}
	r.fake.Before = before
	must.OK(t, r.setUp(second))
	must.OK(t, r.tearDown("p2"))
	r.fake.Calls()
	*options = nil
	must.OK(t, r.setUp(first))
	r.expect("NodeUnstageVolume h-data", "NodeStageVolume h-data", "NodePublishVolume h-data")
	for _, o := range *options {
		if !strings.HasSuffix(o, `:s0:c1"`) {
			t.Errorf("mounted with %q", o)
		}
	}
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}

func TestAVolumeIsMountedWithoutALabel(t *testing.T) {
	recursive := &corev1.PodSecurityContext{SELinuxChangePolicy: ptr.To(corev1.SELinuxChangePolicyRecursive)}
	for name, change := range map[string]func(*rig, *corev1.Pod){
		"no SELinux":             func(r *rig, _ *corev1.Pod) { r.seLinux = nil },
		"of a driver that can't": func(r *rig, _ *corev1.Pod) { r.driver.Spec.SELinuxMount = nil },
		"recursive":              func(_ *rig, p *corev1.Pod) { p.Spec.SecurityContext = recursive },
		"no options":             func(_ *rig, p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = nil },
		"no level": func(_ *rig, p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		},
		"not mounted": func(_ *rig, p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = nil },
		"inline":      func(r *rig, p *corev1.Pod) { p.Spec.Volumes[0] = inline(p.Spec.Volumes[0].Name) },
	} {
		t.Run(name, func(t *testing.T) {
			r, options := labeled(t)
			p := r.labeledPod("p1", r.claimed("data"), "s0:c1")
			change(r, p)
			r.restart("boot-1")
			must.OK(t, r.setUp(p))
			if got := strings.Join(*options, ";"); got == "" || strings.Contains(got, "context") {
				t.Errorf("mounted with %q", got)
			}
			if !r.Relabels("p1", p.Spec.Volumes[0].Name) {
				t.Error("its files get no label")
			}
			must.OK(t, r.tearDown("p1"))
			r.nothingLeft()
		})
	}
}

func TestALabelThatCannotBeIsSaid(t *testing.T) {
	for want, options := range map[string][]corev1.SELinuxOptions{
		"labels found: system_u:object_r:container_file_t:s0:c1,system_u": {{Level: "s0:c1"}, {Level: "s0:c2"}},
		"no such type":             {{Type: "none", Level: "s0"}},
		"cannot be a mount option": {{Level: "s0\",noexec=\""}},
	} {
		r, _ := labeled(t)
		v := r.claimed("data")
		p := r.labeledPod("p1", v, make([]string, len(options))...)
		for i := range options {
			p.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{SELinuxOptions: &options[i]}
		}
		if err := r.setUp(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		must.OK(t, r.tearDown("p1"))
		r.expect()
		r.nothingLeft()
	}
}
