package devices

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/journalet/journalet/messages/journaletv1"
)

// maxAnswerBytes bounds what a plugin wants for a container: it is recorded with each start.
const maxAnswerBytes = 16 << 10

// readAnswer returns what a plugin wants for a container. What no runtime could do is an error that names it.
func readAnswer(in *pluginapi.ContainerAllocateResponse) (*journaletv1.DeviceAnswer, error) {
	if n := proto.Size(in); n > maxAnswerBytes {
		return nil, fmt.Errorf("the plugin's answer has %d bytes; at most %d are taken", n, maxAnswerBytes)
	}
	out := new(journaletv1.DeviceAnswer)
	for _, name := range slices.Sorted(maps.Keys(in.GetEnvs())) {
		value := in.GetEnvs()[name]
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") || !valid(name, value) {
			return nil, fmt.Errorf("the plugin's environment variable %.64q is none", name)
		}
		out.Envs = append(out.Envs, &journaletv1.NamedValue{Name: name, Value: value})
	}
	for _, name := range slices.Sorted(maps.Keys(in.GetAnnotations())) {
		if value := in.GetAnnotations()[name]; name == "" || !valid(name, value) {
			return nil, fmt.Errorf("the plugin's annotation %.64q is none", name)
		}
		out.Annotations = append(out.Annotations, &journaletv1.NamedValue{Name: name, Value: in.GetAnnotations()[name]})
	}
	for _, m := range in.GetMounts() {
		if err := checkPaths(m.GetContainerPath(), m.GetHostPath()); err != nil {
			return nil, err
		}
		out.Mounts = append(out.Mounts, &journaletv1.DeviceMount{
			ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadOnly(),
		})
	}
	for _, n := range in.GetDevices() {
		if err := checkPaths(n.GetContainerPath(), n.GetHostPath()); err != nil {
			return nil, err
		}
		if p := n.GetPermissions(); p == "" || strings.Trim(p, "rwm") != "" {
			return nil, fmt.Errorf("the plugin's permissions %.16q are not of r, w and m", p)
		}
		out.Nodes = append(out.Nodes, &journaletv1.DeviceNode{
			ContainerPath: n.GetContainerPath(), HostPath: n.GetHostPath(), Permissions: n.GetPermissions(),
		})
	}
	for _, c := range in.GetCdiDevices() {
		if _, _, _, err := parser.ParseQualifiedName(c.GetName()); err != nil {
			return nil, fmt.Errorf("the plugin's CDI device %.64q is none, such as vendor.com/class=device", c.GetName())
		}
		out.CdiDevices = append(out.CdiDevices, c.GetName())
	}
	return out, nil
}

// checkPaths returns why paths cannot be the paths of a mount or a device.
func checkPaths(all ...string) error {
	for _, path := range all {
		if !filepath.IsAbs(path) || strings.Contains(path, "\x00") || !valid(path) {
			return fmt.Errorf("the plugin's path %.64q is not absolute", path)
		}
		if slices.Contains(strings.Split(path, "/"), "..") {
			return fmt.Errorf("the plugin's path %.64q has the element \"..\"", path)
		}
	}
	return nil
}

func valid(all ...string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !utf8.ValidString(s) })
}
