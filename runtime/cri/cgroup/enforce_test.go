package cgroup

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
)

func TestCgroupThatCannotBeBoundedIsTriedAgain(t *testing.T) {
	var reasons []string
	e := Enforcer{
		Log:  slog.New(slog.DiscardHandler),
		Emit: func(_, reason, _ string) { reasons = append(reasons, reason) },
	}
	all := []Reserved{{Name: "/a", What: "system"}, {Name: "/b", What: "kube"}}
	left := e.enforce(all, func(r Reserved) error {
		if r.Name == "/a" {
			return errors.New("device or resource busy")
		}
		return nil
	})
	if len(left) != 1 || left[0] != all[0] {
		t.Errorf("left are %v, want the first", left)
	}
	if want := []string{"FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced"}; !slices.Equal(reasons, want) {
		t.Errorf("events %q, want %q", reasons, want)
	}
}
