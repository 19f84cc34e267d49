package cri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
)

// maxRuntimeConfigBytes bounds the configuration that a runtime reports; containerd's has some 10 KiB.
const maxRuntimeConfigBytes = 1 << 20

// sandboxImage returns the name of the image that the runtime creates sandboxes from, "" if it names none. Newer
// runtimes pin that image; containerd before 1.7 only has it in its configuration, which its verbose status shows.
// Without it no pod starts, and no container shows that it is in use.
func (c *call) sandboxImage(ctx context.Context) (string, error) {
	resp, err := once(ctx, c, c.opts.Timeouts.Inspect, c.rt.Status, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", err
	}
	text, ok := resp.GetInfo()["config"]
	if !ok {
		return "", nil
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if err := bounded.JSON([]byte(text), maxRuntimeConfigBytes, &config); err != nil {
		return "", fmt.Errorf("read the configuration that the runtime reports: %w", err)
	}
	return config.SandboxImage, nil
}
