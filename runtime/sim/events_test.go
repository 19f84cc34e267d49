package sim

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestEventsAreHeldForTheNextSubscriberFiveMinutes(t *testing.T) {
	g := newRig(t, Options{})
	g.pod(t, "old")
	g.clock.Advance(eventHoldTime)
	young := g.pod(t, "young")
	stream, err := g.cri.GetContainerEvents(g.ctx, &cri.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if e.GetContainerId() != young {
		t.Errorf("first event is about %s, want %s", e.GetContainerId(), young)
	}
}

func TestSubscriberThatFallsBehindIsCutOff(t *testing.T) {
	g := newRig(t, Options{})
	slow, err := g.subscribe()
	if err != nil {
		t.Fatal(err)
	}
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

func TestDeadSandboxIsReportedOnce(t *testing.T) {
	g := newRig(t, Options{})
	id := g.pod(t, "a")
	stream, err := g.cri.GetContainerEvents(g.ctx, &cri.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.KillSandbox(id); err != nil {
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

func TestPullTakesItsTimeAndItsCredentials(t *testing.T) {
	g := newRig(t, Options{Registry: map[string]ImageDef{
		"registry.test/app:1":    {PullTime: time.Minute, Bytes: 42, User: "1000:1000"},
		"registry.test/secret:1": {Username: "u", Password: "p"},
	}})
	pull := func(ref string, auth *cri.AuthConfig) error {
		_, err := g.img.PullImage(g.ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: ref}, Auth: auth})
		return err
	}
	wantCode(t, pull("registry.test/none:1", nil), codes.NotFound)
	wantCode(t, pull("registry.test/secret:1", nil), codes.Unknown)
	wantCode(t, pull("registry.test/secret:1", &cri.AuthConfig{Username: "u", Password: "p"}), codes.OK)
	done := make(chan error, 1)
	go func() { done <- pull("registry.test/app:1", nil) }()
	if err := g.clock.WaitPending(g.ctx, 1); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(time.Minute)
	wantCode(t, <-done, codes.OK)
	st, err := g.img.ImageStatus(g.ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: "registry.test/app:1"}})
	if err != nil || st.GetImage().GetSize() != 42 || st.GetImage().GetUid().GetValue() != 1000 {
		t.Errorf("the pulled image: %v, %v", st, err)
	}
	if _, err := g.img.RemoveImage(g.ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: st.GetImage().GetId()}}); err != nil {
		t.Fatal(err)
	}
	list, err := g.img.ListImages(g.ctx, &cri.ListImagesRequest{Filter: &cri.ImageFilter{Image: &cri.ImageSpec{Image: "registry.test/app:1"}}})
	if err != nil || len(list.GetImages()) != 0 {
		t.Errorf("after its removal: %v, %v", list, err)
	}
}

func TestReferencesAreCompletedAsDockerDoes(t *testing.T) {
	digest := "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for in, want := range map[string]string{
		"busybox":              "docker.io/library/busybox:latest",
		"a/b:1":                "docker.io/a/b:1",
		"localhost/x":          "localhost/x:latest",
		"reg:5000/x":           "reg:5000/x:latest",
		"reg.test/x@" + digest: "reg.test/x@" + digest,
	} {
		if got, err := parseReference(in); err != nil || got.String() != want {
			t.Errorf("%s is read as %s (%v), want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "UPPER/x", "x:", "a b", "x@sha256:1", "/x"} {
		if got, err := parseReference(bad); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
}
