package agent

import (
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/oom"
)

func TestContainerIsFoundByItsCgroup(t *testing.T) {
	o := &journaletv1.PodObserved{Uid: "u", Containers: []*journaletv1.ContainerObservation{{Id: "c1", Name: "app"}}}
	const pod = "/kubepods/burstable/podu"
	app := func(path string) oom.Place {
		return oom.Place{UID: "u", Container: "app", ID: "c1", Path: path, PodPath: pod}
	}
	for cgroup, want := range map[string]oom.Place{
		pod + "/c1":                             app(pod + "/c1"),
		pod + "/c1/x":                           app(pod + "/c1"),
		pod + "/cri-containerd-c1.scope/x":      app(pod + "/cri-containerd-c1.scope"),
		pod + "/c11":                            {UID: "u", Path: pod, PodPath: pod},
		pod:                                     {UID: "u", Path: pod, PodPath: pod},
		pod + "v":                               {},
		"/user.slice/kubepods/burstable/podu/c": {},
	} {
		if got, ok := placeIn(o, pod, cgroup); got != want || ok != (want != oom.Place{}) {
			t.Errorf("%s is of %+v %v, want %+v", cgroup, got, ok, want)
		}
	}
	if got, ok := placeIn(o, "", "/k8s.io/c1"); !ok || got.Container != "app" || got.PodPath != "" {
		t.Errorf("without a cgroup of the pod it is of %+v %v", got, ok)
	}
	if got, ok := placeIn(o, "", "/k8s.io/c2"); ok {
		t.Errorf("another pod's container is of %+v", got)
	}
}
