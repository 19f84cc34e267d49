package sim

import (
	"testing"

	"google.golang.org/grpc/codes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

func TestEventsAreHeldForTheNextSubscriberFiveMinutes(t *testing.T) {
	g := newRig(t, Options{})
	g.pod(t, "old")
	g.clock.Advance(eventHoldTime)
	young := g.pod(t, "young")
	stream, err := g.cri.GetContainerEvents(g.ctx, &cri.GetEventsRequest{})
	must.OK(t, err)
	e, err := stream.Recv()
	must.OK(t, err)
	if e.GetContainerId() != young {
		t.Errorf("first event is about %s, want %s", e.GetContainerId(), young)
	}
}

func TestSubscriberThatFallsBehindIsCutOff(t *testing.T) {
	g := newRig(t, Options{})
	slow, err := g.subscribe()
	must.OK(t, err)
	for g.Subscribers() == 1 {
		id := g.pod(t, "a")
		if _, err := g.cri.RemovePodSandbox(g.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for range slow.ch {
		n++
	}
	if n != maxQueuedEvents {
		t.Errorf("%d events were queued, want %d", n, maxQueuedEvents)
	}
	wantCode(t, slow.err, codes.ResourceExhausted)
}

func TestSubscribersAreBounded(t *testing.T) {
	g := newRig(t, Options{})
	for range maxEventSubscribers {
		if _, err := g.subscribe(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := g.subscribe()
	wantCode(t, err, codes.ResourceExhausted)
}

func TestStoppedSandboxIsReportedOnce(t *testing.T) {
	g := newRig(t, Options{})
	id := g.pod(t, "a")
	stream, err := g.cri.GetContainerEvents(g.ctx, &cri.GetEventsRequest{})
	must.OK(t, err)
	if _, err := g.cri.StopPodSandbox(g.ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.cri.RemovePodSandbox(g.ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []cri.ContainerEventType{
		cri.ContainerEventType_CONTAINER_CREATED_EVENT, cri.ContainerEventType_CONTAINER_STARTED_EVENT,
		cri.ContainerEventType_CONTAINER_STOPPED_EVENT, cri.ContainerEventType_CONTAINER_DELETED_EVENT,
	} {
		e, err := stream.Recv()
		if err != nil || e.GetContainerEventType() != want {
			t.Fatalf("event is %s (%v), want %s", e.GetContainerEventType(), err, want)
		}
	}
}

func TestAPulledImageIsListedUntilItIsRemoved(t *testing.T) {
	g := newRig(t, Options{AnyImage: true})
	spec := &cri.ImageSpec{Image: "registry.test/app:1"}
	pulled, err := g.img.PullImage(g.ctx, &cri.PullImageRequest{Image: spec})
	must.OK(t, err)
	for _, want := range []int{1, 0} {
		list, err := g.img.ListImages(g.ctx, &cri.ListImagesRequest{Filter: &cri.ImageFilter{Image: spec}})
		if err != nil || len(list.GetImages()) != want {
			t.Errorf("%d images are listed (%v), want %d", len(list.GetImages()), err, want)
		}
		byID := &cri.ImageSpec{Image: pulled.GetImageRef()}
		if _, err := g.img.RemoveImage(g.ctx, &cri.RemoveImageRequest{Image: byID}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReferencesAreCompletedAsDockerDoes(t *testing.T) {
	digest := "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for in, want := range map[string]string{
		"busybox":                "docker.io/library/busybox:latest",
		"a/b:1":                  "docker.io/a/b:1",
		"docker.io/app":          "docker.io/library/app:latest",
		"localhost/app":          "localhost/app:latest",
		"reg:5000/app":           "reg:5000/app:latest",
		"reg.test/app@" + digest: "reg.test/app@" + digest,
		"UPPER/x:1@" + digest:    "UPPER/x@" + digest,
	} {
		if got, err := fullReference(in); err != nil || got != want {
			t.Errorf("%s is read as %s (%v), want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "UPPER", "x:", "a b", "x@sha256:1"} {
		if got, err := fullReference(bad); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
}
