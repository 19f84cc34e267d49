package kubelet

import (
	"context"
	"net/http"
)

// Stats are the numbers of the node, its pods and containers.
type Stats interface {
	// Summary returns the Summary API's object as JSON.
	Summary(ctx context.Context, onlyCPUAndMemory bool) ([]byte, error)
}

func (s *Server) statsRoutes() {
	for _, path := range []string{"/stats/summary", "/metrics/cadvisor", "/metrics/resource"} {
		s.handle(http.MethodGet, path, absent(path[1:]))
	}
}
