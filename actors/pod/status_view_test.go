package pod

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// A request of 0 beside a limit is a request. Only a request that is not given defaults to the limit.
func TestZeroRequestDoesNotDefaultToItsLimit(t *testing.T) {
	for name, c := range map[string]struct {
		requests corev1.ResourceList
		want     corev1.PodQOSClass
	}{
		"not given":          {listOf("1", ""), corev1.PodQOSGuaranteed},
		"given as 0":         {listOf("1", "0"), corev1.PodQOSBurstable},
		"given as the limit": {listOf("1", "1Gi"), corev1.PodQOSGuaranteed},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Limits: listOf("1", "1Gi"), Requests: c.requests},
		}}}}
		if got := QOS(p); got != c.want {
			t.Errorf("a memory request %s: %s, want %s", name, got, c.want)
		}
	}
}

// Until a container is replaced, its status names the image that it was created from.
func TestStatusNamesImageOfContainer(t *testing.T) {
	state, err := proto.Marshal(&journaletv1.PodState{
		Pod: &journaletv1.PodRef{Uid: "a", Digest: "sha256:1"}, Stage: journaletv1.PodStage_POD_STAGE_RUNNING,
		Containers: map[string]*journaletv1.ContainerRecord{"old": {Name: "old", Current: &journaletv1.ContainerObservation{
			Id: "old-0", Name: "old", Image: "app:1", State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := New("a")
	if err := a.Restore(state); err != nil {
		t.Fatal(err)
	}
	a.Resolve("sha256:1", &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "old", Image: "app:2"}, {Name: "new", Image: "app:2"},
	}}})
	for i, want := range []string{"app:1", "app:2"} {
		if got := a.View(Node{}).Status.ContainerStatuses[i].Image; got != want {
			t.Errorf("container %d has image %s, want %s", i, got, want)
		}
	}
}

// As with the kubelet: 12 KiB for all containers of a pod, the same for each. So a status does not grow with their
// number.
func TestTerminationMessagesShareTheBoundOfThePod(t *testing.T) {
	state := &journaletv1.PodState{
		Pod: &journaletv1.PodRef{Uid: "a", Digest: "sha256:1"}, Stage: journaletv1.PodStage_POD_STAGE_RUNNING,
		Containers: map[string]*journaletv1.ContainerRecord{},
	}
	ended := func(id, message string) *journaletv1.ContainerObservation {
		return &journaletv1.ContainerObservation{
			Id: id, State: journaletv1.ContainerState_CONTAINER_STATE_EXITED, ExitCode: 1, Message: message,
		}
	}
	p := podOf()
	p.Spec.RestartPolicy, p.Spec.InitContainers = corev1.RestartPolicyNever, []corev1.Container{{Name: "init"}}
	for _, name := range []string{"init", "b", "c", "d"} {
		if name != "init" {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
		}
		state.Containers[name] = &journaletv1.ContainerRecord{
			Name: name, Current: ended(name+"-1", strings.Repeat("x", 3071)+"é and more"),
			Last: ended(name+"-0", strings.Repeat("y", 4096)),
		}
	}
	stored, err := proto.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	view := func() corev1.PodStatus {
		a := New("a")
		if err := a.Restore(stored); err != nil {
			t.Fatal(err)
		}
		a.Resolve("sha256:1", p)
		return a.View(Node{}).Status
	}
	st := view()
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if got := c.State.Terminated.Message; got != strings.Repeat("x", 3071) {
			t.Errorf("%s has a message of %d bytes, ending in %q", c.Name, len(got), got[len(got)-4:])
		}
		if got := len(c.LastTerminationState.Terminated.Message); got != 3072 {
			t.Errorf("the last instance of %s has a message of %d bytes", c.Name, got)
		}
	}
	p.Spec.InitContainers, p.Spec.Containers = nil, p.Spec.Containers[:1]
	if got := len(view().ContainerStatuses[0].LastTerminationState.Terminated.Message); got != 4096 {
		t.Errorf("the only container has a message of %d bytes", got)
	}
}
