package main

import (
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// like makes the floor send an agent's requests, rather than the least that a pod needs. So it separates what the
// agent's requests cost the runtime from what the agent itself costs.
type like struct {
	sandbox   *cri.PodSandboxConfig
	container *cri.ContainerConfig
	dir       string // for files to mount in place of the agent's, which are gone
}

// sandboxAs returns the agent's request for another pod.
func (l *like) sandboxAs(least *cri.PodSandboxConfig) *cri.PodSandboxConfig {
	out := proto.CloneOf(l.sandbox)
	out.Metadata, out.Hostname, out.LogDirectory = least.Metadata, least.Metadata.Name, least.LogDirectory
	out.Labels[podNameLabel] = least.Metadata.Name
	return out
}

// containerAs returns the agent's request for a container of another pod, with its own files in place of the agent's.
func (l *like) containerAs(least *cri.ContainerConfig) (*cri.ContainerConfig, error) {
	out := proto.CloneOf(l.container)
	out.Metadata, out.LogPath = least.Metadata, least.LogPath
	out.Labels[podNameLabel] = least.Labels[podNameLabel]
	for i, m := range out.Mounts {
		m.HostPath = filepath.Join(l.dir, fmt.Sprintf("%s-%d", least.Labels[podNameLabel], i))
		if err := os.WriteFile(m.HostPath, nil, 0o640); err != nil {
			return nil, err
		}
	}
	return out, nil
}
