package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/objectcache"
	"github.com/journalet/journalet/runtime/cri/expand"
)

// apiServer is the Service of namespace default whose variables every container gets.
const apiServer = "kubernetes"

// maxLinked is more Services than a process can have variables for: one Service's variables take at least 120 bytes.
const maxLinked = expand.MaxTotalBytes / 120

// ErrNotRead means that the Services have not been read yet. The text is the kubelet's.
var ErrNotRead = errors.New("services have not yet been read at least once, cannot construct envvars")

// Services follows the Services of the cluster. Its methods may be called concurrently.
type Services struct {
	all *objectcache.List[corev1.Service, service]
}

// New returns Services that have not been read. kept and log may be nil; away reports whether the API server does not
// answer.
func New(c *client.Client, kept objectcache.Kept, away func() bool, log *slog.Logger) *Services {
	return &Services{all: objectcache.New(c, client.Services, objectcache.Options[corev1.Service, service]{
		Value: serviceOf, Size: service.bytes, Kept: kept, Away: away, Log: log,
	})}
}

// Run follows the Services until ctx ends.
func (s *Services) Run(ctx context.Context) error { return s.all.Run(ctx) }

// Env returns the variables of the API server's Service, and with links also the variables of a namespace's Services.
// With wait it waits for the first list, at most 4 s, and fails with ErrNotRead; otherwise it returns what is known.
// More than a process can be given is an error, and takes no memory.
func (s *Services) Env(ctx context.Context, namespace string, links, wait bool) (map[string]string, error) {
	if wait {
		switch err := s.all.Wait(ctx); {
		case errors.Is(err, objectcache.ErrNotRead):
			return nil, ErrNotRead
		case err != nil:
			return nil, err
		}
	}
	env := variables{all: map[string]string{}, left: expand.MaxTotalBytes}
	// As in the kubelet, the pod's own Service of that name wins over the API server's.
	if api, ok := s.all.Get(metav1.NamespaceDefault, apiServer); ok {
		api.addTo(&env)
	}
	if links {
		all, ok := s.all.In(namespace, maxLinked)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			ok = ok && all[name].addTo(&env)
		}
		if !ok {
			return nil, fmt.Errorf("the variables of the Services of namespace %s have more than %d bytes, and Linux starts "+
				"no process with more; set enableServiceLinks of the pod to false, or delete Services", namespace,
				expand.MaxTotalBytes)
		}
	}
	return env.all, nil
}
