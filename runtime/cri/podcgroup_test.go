//go:build integration

package cri_test

import (
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// It needs root and writable cgroups: New refuses others.
func TestPodWithoutCgroupIsCleaned(t *testing.T) {
	tree, err := cgroup.New(cgroup.Options{All: true, Root: "no-such-cgroup"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *cri.Options) { o.PodCgroups = tree })
	r.done("v", setUpVolumes(), false)
	r.fails("s", runSandbox(0), journaletv1.CallError_CALL_ERROR_RUNTIME, "--cgroup-root")
	r.done("k", cleanPod("web"), false)
}
