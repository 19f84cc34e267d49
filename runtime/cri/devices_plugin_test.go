package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/expand"
	"github.com/journalet/journalet/test/must"
)

// answers are the answers of two plugins that contradict each other.
func answers() []*journaletv1.ContainerDevices {
	devicesOf := func(resource, value string) *journaletv1.ContainerDevices {
		return &journaletv1.ContainerDevices{Resource: resource, Answer: &journaletv1.DeviceAnswer{
			Envs:        []*journaletv1.NamedValue{{Name: "OWN", Value: value}, {Name: "BOTH", Value: value}},
			Mounts:      []*journaletv1.DeviceMount{{ContainerPath: "/m", HostPath: "/" + value, ReadOnly: true}},
			Nodes:       []*journaletv1.DeviceNode{{ContainerPath: "/dev/n", HostPath: "/dev/" + value, Permissions: "rw"}},
			Annotations: []*journaletv1.NamedValue{{Name: "a", Value: value}},
			CdiDevices:  []string{"vendor.com/class=" + value, "vendor.com/class=both"},
		}}
	}
	return []*journaletv1.ContainerDevices{devicesOf("example.com/one", "one"), devicesOf("example.com/two", "two")}
}

func TestTheFirstPluginCountsAndTheManifestBeforeIt(t *testing.T) {
	own := []*runtimeapi.KeyValue{{Key: "OWN", Value: []byte("manifest")}}
	envs, err := withDeviceEnvs(own, answers(), new(expand.Budget))
	must.OK(t, err)
	text := ""
	for _, e := range envs {
		text += fmt.Sprintf("%s=%s ", e.GetKey(), e.GetValue())
	}
	for _, m := range deviceMounts(answers()) {
		text += fmt.Sprintf("%s:%s:%t ", m.GetContainerPath(), m.GetHostPath(), m.GetReadonly())
	}
	for _, n := range deviceNodes(answers()) {
		text += fmt.Sprintf("%s:%s:%s ", n.GetContainerPath(), n.GetHostPath(), n.GetPermissions())
	}
	for _, d := range pluginCDIDevices(answers()) {
		text += d.GetName() + " "
	}
	text += deviceAnnotations(answers())["a"]
	want := "BOTH=one OWN=manifest /m:/one:true /dev/n:/dev/one:rw " +
		"vendor.com/class=one vendor.com/class=both vendor.com/class=two one"
	if text != want {
		t.Errorf("the container gets\n%s\nwant\n%s", text, want)
	}
}

func TestVariablesOfDevicesAreChargedToTheBudget(t *testing.T) {
	large := make([]byte, 3<<20)
	for i := range large {
		large[i] = 'x'
	}
	all := []*journaletv1.ContainerDevices{{Answer: &journaletv1.DeviceAnswer{
		Envs: []*journaletv1.NamedValue{{Name: "A", Value: string(large)}},
	}}}
	if _, err := withDeviceEnvs(nil, all, new(expand.Budget)); err == nil {
		t.Error("a variable beyond what a process can be given is taken")
	}
}

// The runtime creates a directory for a mount whose source is missing, in the place of what the plugin has there.
func TestWhatAPluginGivesHasToBeOnTheNode(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	c := &call{Driver: &Driver{opts: Options{Stat: os.Stat}, answers: new(bounded.Answers)}}
	for name, answer := range map[string]*journaletv1.DeviceAnswer{
		"mount": {Mounts: []*journaletv1.DeviceMount{{ContainerPath: "/a", HostPath: missing}}},
		"node":  {Nodes: []*journaletv1.DeviceNode{{ContainerPath: "/a", HostPath: missing}}},
	} {
		given := []*journaletv1.ContainerDevices{{Resource: "example.com/one", Answer: answer}}
		err := c.checkDevices(t.Context(), given)
		if f := new(calls.Failure); !errors.As(err, &f) || !f.Retryable || !strings.Contains(f.Message, missing) ||
			!strings.Contains(f.Message, "example.com/one") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.OK(t, c.checkDevices(t.Context(), []*journaletv1.ContainerDevices{{Answer: &journaletv1.DeviceAnswer{
		Mounts: []*journaletv1.DeviceMount{{HostPath: dir}}, Nodes: []*journaletv1.DeviceNode{{HostPath: "/dev/null"}},
	}}}))
}
