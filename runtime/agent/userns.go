package agent

import (
	"maps"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// foundUserNamespaces returns the ids of pods whose directories are on the node and which the journal does not have
// (ADR 042).
func (a *agent) foundUserNamespaces(r *host.Recovered) map[string]*journaletv1.UserNamespace {
	found, err := volume.FindUserNamespaces(a.cfg.RootDir)
	if err != nil {
		a.log.Warn("cannot read which ids pods have; if the journal does not have these pods either, others may get "+
			"the same", "error", err)
	}
	fold.EachOf(r, func(_ messages.Ref, known *node.Actor) {
		maps.DeleteFunc(found, func(uid string, _ *journaletv1.UserNamespace) bool { return known.HasUserNamespace(uid) })
	})
	return found
}

// userNamespaces returns the ids that pods share, for AgentStarted.
func (a *agent) userNamespaces() *journaletv1.UserNamespaceRange {
	ids := a.facts.UserNamespaces
	return &journaletv1.UserNamespaceRange{First: ids.First, Pods: ids.Pods, IdsPerPod: ids.IDsPerPod}
}

// hugePages returns the node's huge pages, for AgentStarted.
func (a *agent) hugePages() []*journaletv1.HugePages {
	var all []*journaletv1.HugePages
	for _, h := range a.facts.HugePages {
		all = append(all, &journaletv1.HugePages{PageBytes: h.PageBytes, Bytes: h.Bytes})
	}
	return all
}
