package devices_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/plugins/devices"
)

// oneRefuses are device plugins; one of them refuses to prepare its devices.
type oneRefuses struct{ called []string }

func (o *oneRefuses) Allocate(context.Context, *journaletv1.AllocateDevices) (*journaletv1.DeviceAnswer, bool, error) {
	return nil, false, errors.New("not of this test")
}

func (o *oneRefuses) PreStart(_ context.Context, resource string, ids []string) error {
	o.called = append(o.called, resource+"="+ids[0])
	if resource == "example.com/two" {
		return errors.New("no power")
	}
	return nil
}

func TestPreStartEndsWithTheFirstPluginThatFails(t *testing.T) {
	plugins := new(oneRefuses)
	given := []*journaletv1.ContainerDevices{
		{Resource: "example.com/one", Ids: []string{"a"}}, {Resource: "example.com/two", Ids: []string{"b"}},
		{Resource: "example.com/three", Ids: []string{"c"}},
	}
	_, err := devices.Worker{Plugins: plugins}.Do(t.Context(), nil,
		messages.NewCall(&journaletv1.PreStartContainer{Devices: given}))
	if f := new(calls.Failure); !errors.As(err, &f) || f.Code != journaletv1.CallError_CALL_ERROR_CONFIG || !f.Retryable {
		t.Errorf("the call ends in %v, want one that is repeated", err)
	}
	if called := fmt.Sprint(plugins.called); called != "[example.com/one=a example.com/two=b]" {
		t.Errorf("plugins were called for %s", called)
	}
}
