package kubelet

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Logs reads logs of containers.
type Logs interface {
	// Read writes the log of a container to out until its end, with o.Follow until ctx ends.
	Read(ctx context.Context, pod *corev1.Pod, container string, o *corev1.PodLogOptions, out io.Writer) error
}

func (s *Server) logRoutes() {
	s.handle("GET", "/containerLogs/{namespace}/{pod}/{container}", absent("containerLogs"))
}
