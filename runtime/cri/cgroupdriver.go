package cri

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cri/cgroup"
)

// maxConfigBytes bounds the configuration that a runtime reports. containerd's has 2 KiB, and as much for each handler.
const maxConfigBytes = 1 << 20

// CgroupDriver returns the cgroup driver that the runtime uses, cgroup.Cgroupfs or cgroup.Systemd; "" if it does not
// report one. It asks RuntimeConfig, which containerd has since 2.0, and then for the configuration in the verbose
// status, which containerd reported before. An error is one of the connection or the runtime: try again later.
func CgroupDriver(ctx context.Context, rt runtimeapi.RuntimeServiceClient) (string, error) {
	config, err := rt.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case err != nil && status.Code(err) != codes.Unimplemented:
		return "", err
	case config.GetLinux() != nil && config.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD:
		return cgroup.Systemd, nil
	case config.GetLinux() != nil:
		return cgroup.Cgroupfs, nil
	}
	st, err := rt.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", err
	}
	return configuredDriver(st.GetInfo()["config"]), nil
}

// configuredDriver returns the driver of the default handler in containerd's configuration, "" if that is not runc or
// the text is something else. The configuration may hold credentials of registries: nothing of it is kept or shown.
func configuredDriver(text string) string {
	var config struct {
		Containerd struct {
			DefaultRuntimeName string `json:"defaultRuntimeName"`
			Runtimes           map[string]struct {
				RuntimeType string `json:"runtimeType"`
				Options     struct {
					SystemdCgroup bool
				} `json:"options"`
			} `json:"runtimes"`
		} `json:"containerd"`
	}
	if bounded.JSON([]byte(text), maxConfigBytes, &config) != nil {
		return ""
	}
	handler := config.Containerd.Runtimes[config.Containerd.DefaultRuntimeName]
	switch {
	case !strings.HasPrefix(handler.RuntimeType, "io.containerd.runc."):
		return ""
	case handler.Options.SystemdCgroup:
		return cgroup.Systemd
	}
	return cgroup.Cgroupfs
}

const (
	// slicePathText is in runc's refusal of a cgroup path in the form of cgroupfs.
	slicePathText = "expected cgroupsPath to be of format"
	sliceRemedy   = "; the runtime uses the cgroup driver systemd: start the agent with --cgroup-driver systemd"
)

// withRemedy adds to a runtime's message the flag that prevents it.
func withRemedy(message string) string {
	if strings.Contains(message, slicePathText) {
		return message + sliceRemedy
	}
	return message
}
