package podsapi

import (
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/runtime/plugins/clients"
)

// WatchPods sends all pods as ADDED, then INITIAL_SYNC_COMPLETE, then each change, until the client leaves or lags.
func (s *Server) WatchPods(_ *api.WatchPodsRequest, stream grpc.ServerStreamingServer[api.WatchPodsEvent]) error {
	ctx := stream.Context()
	if err := s.ready(ctx); err != nil {
		return err
	}
	w := s.hub.join(clients.ConnOf(ctx))
	if w == nil {
		return status.Errorf(codes.ResourceExhausted, "there are %d watches already; end one of them", maxWatches)
	}
	defer s.hub.leave(w)
	if err := s.sendAll(w, stream); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case e, ok := <-w.events:
			if !ok {
				return lags()
			}
			w.waiting.Add(-int64(len(e.pod)))
			if err := stream.Send(&api.WatchPodsEvent{Type: e.kind, Pod: e.pod}); err != nil {
				return err
			}
		}
	}
}

// sendAll sends all pods, each as it is at that moment. One that cannot be read comes later.
func (s *Server) sendAll(w *watcher, stream grpc.ServerStreamingServer[api.WatchPodsEvent]) error {
	s.hub.mu.Lock()
	all := slices.Sorted(maps.Keys(w.unsent))
	s.hub.mu.Unlock()
	wait := patience
	for _, uid := range all {
		pod, err := s.hub.read(stream.Context(), uid, w, wait)
		switch {
		case stream.Context().Err() != nil:
			return status.FromContextError(stream.Context().Err()).Err()
		case w.dropped.Load():
			return lags()
		case err != nil:
			wait = brief
		case pod != nil:
			if err := stream.Send(&api.WatchPodsEvent{Type: api.EventType_ADDED, Pod: pod}); err != nil {
				return err
			}
		}
	}
	s.hub.sent(w)
	return stream.Send(&api.WatchPodsEvent{Type: api.EventType_INITIAL_SYNC_COMPLETE})
}

func lags() error {
	return status.Error(codes.ResourceExhausted, "the client reads too slowly and has missed a change; watch again")
}
