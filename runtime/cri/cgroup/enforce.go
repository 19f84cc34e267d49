package cgroup

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/clock"
)

// Pauses between two attempts to create or bound cgroups: the first, doubling to the last (kubelet: every minute).
const (
	MinPause = time.Second
	MaxPause = time.Minute
)

// Enforcer bounds the cgroups of daemons. Where the kernel refuses, because they use more memory than is reserved for
// them, it tries again.
type Enforcer struct {
	// All are the cgroups to bound.
	All []Reserved
	// Emit emits an event of the Node.
	Emit  func(kind, reason, message string)
	Clock clock.Clock
	Log   *slog.Logger
}

// Name implements drivers.Driver.
func (*Enforcer) Name() string { return "reserved cgroups" }

// Run bounds all cgroups, and returns when it has or ctx ends.
func (e *Enforcer) Run(ctx context.Context) error {
	left := e.All
	for pause := MinPause; len(left) > 0; pause = min(2*pause, MaxPause) {
		left = e.enforce(left, Reserved.Set)
		if len(left) > 0 && clock.Wait(ctx, e.Clock, pause) != nil {
			break
		}
	}
	return nil
}

// enforce bounds cgroups, with the kubelet's events, and returns the cgroups that it could not bound.
func (e *Enforcer) enforce(all []Reserved, set func(Reserved) error) (left []Reserved) {
	for _, r := range all {
		if err := set(r); err != nil {
			e.Log.Warn("cannot bound the cgroup of daemons; trying again", "cgroup", r.Name, "error", err)
			e.Emit(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", "Failed to enforce "+
				strings.ToUpper(r.What[:1])+r.What[1:]+" Reserved Cgroup Limits on "+strconv.Quote(r.Name)+": "+err.Error())
			left = append(left, r)
			continue
		}
		e.Log.Info("bounded the cgroup of daemons", "cgroup", r.Name, "reserved for", r.What)
		e.Emit(corev1.EventTypeNormal, "NodeAllocatableEnforced",
			"Updated limits on "+r.What+" reserved cgroup "+r.Name)
	}
	return left
}
