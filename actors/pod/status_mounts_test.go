package pod

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// mounted has a mount of each mode.
func mounted(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "app"}
	for _, mode := range []corev1.RecursiveReadOnlyMode{
		"", corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled,
	} {
		m := corev1.VolumeMount{Name: "v", MountPath: "/ro" + string(mode), ReadOnly: true}
		if mode != "" {
			m.RecursiveReadOnly = &mode
		}
		c.VolumeMounts = append(c.VolumeMounts, m)
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/rw", SubPath: "x"})
	return c
}

// identity returns user and mounts of a status, in one line.
func identity(st corev1.ContainerStatus) string {
	var words []string
	if st.User != nil {
		u := st.User.Linux
		words = append(words, fmt.Sprintf("%d:%d:%v", u.UID, u.GID, u.SupplementalGroups))
	}
	for _, m := range st.VolumeMounts {
		w := m.Name + m.MountPath
		if m.ReadOnly {
			w += "=" + string(*m.RecursiveReadOnly)
		} else if m.RecursiveReadOnly != nil {
			w += " has a mode"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

const (
	notRecursive = "v/ro=Disabled v/roDisabled=Disabled v/roIfPossible=Disabled v/roEnabled=Enabled v/rw"
	recursive    = "v/ro=Disabled v/roDisabled=Disabled v/roIfPossible=Enabled v/roEnabled=Enabled v/rw"
)

// mountedPod is an admitted pod with one container of each kind.
func mountedPod(t *testing.T) *testPod {
	t.Helper()
	manifest := podOf(mounted("main"))
	manifest.Spec.InitContainers = []corev1.Container{mounted("init")}
	manifest.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon(mounted("debug"))},
	}
	p := newTestPod(t, map[string]*corev1.Pod{"m": manifest})
	p.updated(add, "m")
	p.admitted(p.seq)
	return p
}

// shows has the runtime show the containers of a mountedPod, each as change has it.
func (p *testPod) shows(state journaletv1.ContainerState, change func(*journaletv1.ContainerObservation)) {
	o := p.observed(&journaletv1.SandboxObservation{Id: "s", State: journaletv1.SandboxState_SANDBOX_STATE_READY})
	for _, name := range []string{"debug", "init", "main"} {
		c := &journaletv1.ContainerObservation{
			Id: name + "-0", Name: name, SandboxId: "s", State: state, StartedAt: timestamppb.New(noon),
		}
		if change != nil {
			change(c)
		}
		o.Containers = append(o.Containers, c)
	}
	p.handle(o)
}

// identities checks user and mounts of each container.
func (p *testPod) identities(when, want string) {
	p.t.Helper()
	st := p.View(Node{}).Status
	all := slices.Concat(st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses)
	if len(all) != 3 {
		p.t.Fatalf("%s: %d containers", when, len(all))
	}
	for _, c := range all {
		if got := identity(c); got != want {
			p.t.Errorf("%s, %s: %s\nwant %s", when, c.Name, got, want)
		}
	}
}

func TestStatusNamesTheUserAndTheMountsOfAContainer(t *testing.T) {
	const (
		running = journaletv1.ContainerState_CONTAINER_STATE_RUNNING
		ended   = journaletv1.ContainerState_CONTAINER_STATE_EXITED
	)
	user := func(c *journaletv1.ContainerObservation) {
		c.User = &journaletv1.ContainerUser{Uid: 1000, Gid: 3000, SupplementalGroups: []int64{3000, 50000}}
		c.RecursiveReadOnlyMounts = 2
	}
	p := mountedPod(t)
	p.identities("before it runs", notRecursive)
	p.shows(running, user)
	p.identities("while it runs", "1000:3000:[3000 50000] "+recursive)
	p.shows(ended, user)
	p.identities("once it has ended", "1000:3000:[3000 50000] "+recursive)
	p.handle(p.observed())
	p.identities("once the runtime has removed it", "1000:3000:[3000 50000] "+recursive)
}

// A runtime that cannot mount recursively shows no such mount; neither does a journal of an earlier version, nor one
// whose container another handler runs.
func TestMountsAreNotRecursiveUnlessTheRuntimeShowsThem(t *testing.T) {
	p := mountedPod(t)
	p.shows(journaletv1.ContainerState_CONTAINER_STATE_RUNNING, nil)
	p.identities("nothing is reported", notRecursive)
	p.shows(journaletv1.ContainerState_CONTAINER_STATE_EXITED, func(c *journaletv1.ContainerObservation) {
		c.RecursiveReadOnlyMounts = 1
	})
	p.identities("one of two mounts is", notRecursive)
}
