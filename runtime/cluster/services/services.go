package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// firstWait bounds how long the start of a container waits for the first list: longer than it takes to find out that
	// the API server does not answer (package client), so that the first try takes the list that was kept.
	firstWait = 4 * time.Second
	// checkAway is how often that is checked.
	checkAway = 100 * time.Millisecond
	// apiServer is the Service of namespace default whose variables every container gets.
	apiServer = "kubernetes"
	// saveAfter is how long after a change the list is kept, which takes in the changes until then.
	saveAfter = 2 * time.Second
	// maxListBytes bounds the list that is kept: some 20,000 Services.
	maxListBytes = 4 << 20
	listName     = "services"
)

// ErrNotRead means that the Services have not been read yet. The text is the kubelet's.
var ErrNotRead = errors.New("services have not yet been read at least once, cannot construct envvars")

// Kept keeps a list for a start without the API server (runtime/objects/kept).
type Kept interface {
	SaveList(name string, data []byte)
	LoadList(name string) ([]byte, bool)
}

// Services follows the Services of the cluster. Its methods may be called concurrently.
type Services struct {
	lister *cache.ListWatch
	kept   Kept
	away   func() bool
	first  chan struct{} // closed with the first list

	mu sync.Mutex
	// saving: the list is about to be kept.
	saving bool
	// all are the services by namespace and name.
	all map[string]map[string]service
}

// New returns Services that have not been read. kept may be nil; away reports whether the API server does not answer.
func New(c *client.Client, kept Kept, away func() bool) (*Services, error) {
	lister, err := client.ListWatch(c, client.Services, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	return &Services{
		lister: lister, kept: kept, away: away, first: make(chan struct{}), all: map[string]map[string]service{},
	}, nil
}

// Run follows the Services until ctx ends.
func (s *Services) Run(ctx context.Context) error {
	cache.NewReflectorWithOptions(s.lister, &corev1.Service{}, (*store)(s), cache.ReflectorOptions{Name: "services"}).
		RunWithContext(ctx)
	return ctx.Err()
}

// Env returns the variables of the API server's Service, and with links those of the Services of a namespace. With wait
// it waits for the first list, at most 4 s, and fails with ErrNotRead; otherwise it returns what is known.
func (s *Services) Env(ctx context.Context, namespace string, links, wait bool) (map[string]string, error) {
	if wait {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	env := map[string]string{}
	// As in the kubelet, the pod's own Service of that name wins over the API server's.
	if api, ok := s.all[metav1.NamespaceDefault][apiServer]; ok {
		api.addTo(env)
	}
	if links {
		for _, name := range slices.Sorted(maps.Keys(s.all[namespace])) {
			s.all[namespace][name].addTo(env)
		}
	}
	return env, nil
}

// read waits for the first list.
func (s *Services) read(ctx context.Context) error {
	end, check := time.NewTimer(firstWait), time.NewTicker(checkAway)
	defer end.Stop()
	defer check.Stop()
	for {
		select {
		case <-s.first:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return ErrNotRead
		case <-check.C:
			if s.load() {
				return nil
			}
		}
	}
}

// load takes the list that was kept, if the API server does not answer.
func (s *Services) load() bool {
	if s.kept == nil || !s.away() {
		return false
	}
	data, ok := s.kept.LoadList(listName)
	all := map[string]map[string]service{}
	if !ok || bounded.JSON(data, maxListBytes, &all) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.first: // a list came meanwhile
	default:
		s.all = all
	}
	return true
}

// changed keeps the list soon; s.mu is held.
func (s *Services) changed() {
	if s.kept == nil || s.saving {
		return
	}
	s.saving = true
	time.AfterFunc(saveAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.saving = false
		if data, err := json.Marshal(s.all); err == nil && len(data) <= maxListBytes {
			s.kept.SaveList(listName, data)
		}
	})
}

// store is the Services as the store of their Reflector.
type store Services

// Add takes a Service.
func (s *store) Add(o any) error {
	v, ok := o.(*corev1.Service)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set(s.all, v)
	(*Services)(s).changed()
	return nil
}

// Update takes a newer Service.
func (s *store) Update(o any) error { return s.Add(o) }

// Delete takes that a Service is gone.
func (s *store) Delete(o any) error {
	v, ok := o.(*corev1.Service)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	remove(s.all, v)
	(*Services)(s).changed()
	return nil
}

// Replace takes a list.
func (s *store) Replace(list []any, _ string) error {
	all := map[string]map[string]service{}
	for _, o := range list {
		if v, ok := o.(*corev1.Service); ok {
			set(all, v)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = all
	(*Services)(s).changed()
	select {
	case <-s.first:
	default:
		close(s.first)
	}
	return nil
}

// Resync does nothing.
func (s *store) Resync() error { return nil }

func set(all map[string]map[string]service, v *corev1.Service) {
	kept, ok := of(v)
	if !ok {
		remove(all, v)
		return
	}
	if all[v.Namespace] == nil {
		all[v.Namespace] = map[string]service{}
	}
	all[v.Namespace][v.Name] = kept
}

func remove(all map[string]map[string]service, v *corev1.Service) {
	if delete(all[v.Namespace], v.Name); len(all[v.Namespace]) == 0 {
		delete(all, v.Namespace)
	}
}
