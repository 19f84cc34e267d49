package query

import (
	"context"
	"fmt"

	"github.com/journalet/journalet/messages"
)

// lift ends a quarantine, and reports why if the actor fails again.
func (s *server) lift(ctx context.Context, q LiftRequest) (*LiftResponse, error) {
	ref, err := s.quarantinedActor(ctx, q.Actor)
	if err != nil {
		return nil, err
	}
	if s.Host.Quarantines()[ref] == nil {
		return nil, &Error{CodeConflict, fmt.Sprintf("%s is not quarantined", ref)}
	}
	s.Log.Info("lifting a quarantine", "actor", ref.String(), "skip", q.Skip)
	if err := s.Host.LiftQuarantine(ref, q.Skip); err != nil {
		return nil, &Error{CodeConflict, fmt.Sprintf("%s is still quarantined: %v", ref, err)}
	}
	return &LiftResponse{Actor: ref.String()}, nil
}

// quarantinedActor returns the actor with a name: as kind/id, or a pod by its name, namespace/name or UID.
func (s *server) quarantinedActor(ctx context.Context, name string) (messages.Ref, error) {
	all := s.Host.Quarantines()
	if ref, err := messages.ParseRef(name); err == nil && (all[ref] != nil || s.exists(ref)) {
		return ref, nil
	}
	v, _, err := s.findPod(ctx, name, "")
	if err == nil {
		return v.ref, nil
	}
	if IsNotFound(err) {
		return messages.Ref{}, notFound("actor %q not found on node %s: want kind/id as /healthz names it, such as "+
			"runtime/0 or source/file, or a pod by its name", name, s.Node)
	}
	return messages.Ref{}, err
}
