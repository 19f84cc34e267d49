package pleg_test

import (
	"context"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/test/must"
)

func TestPodsThatFillTheListHideNoOthers(t *testing.T) {
	r := newRig(t)
	large := func(c *runtimeapi.ContainerConfig) {
		c.Annotations = map[string]string{cri.AnnotationAgent: agent, "large": strings.Repeat("x", 9<<20)}
	}
	r.start("u1", agent, large)
	r.start("u2", agent, large)
	_, id := r.start("u3", agent, nil)
	if _, err := r.rt.ListContainers(context.Background(), &runtimeapi.ListContainersRequest{}); err == nil {
		t.Fatal("the list of all containers fits a message")
	}
	must.OK(t, r.pleg.Relist(context.Background()))
	r.inspect()
	for range 3 {
		if o := r.next(); o.GetUid() == "u3" && o.GetContainers()[0].GetId() == id {
			return
		}
	}
	t.Error("the small pod was not observed")
}
