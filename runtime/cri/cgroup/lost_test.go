//go:build integration

package cgroup

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

func TestSeedsWithoutCgroupsAreLost(t *testing.T) {
	here, gone := podWith("here", corev1.ResourceRequirements{}), podWith("gone", corev1.ResourceRequirements{})
	tree := newTree(t)
	ensure(t, tree, here)
	next := reopened(t, tree.opts.Root)
	initTree(t, next, here, gone)
	if got := next.Lost(); !slices.Equal(got, []string{"gone"}) {
		t.Errorf("lost: %v", got)
	}
	must.OK(t, errors.Join(next.Ensure(gone, false), next.Remove("gone"), next.Remove("here")))
	if got := tree.Lost(); len(got) != 0 {
		t.Errorf("lost on a new tree: %v", got)
	}
}
