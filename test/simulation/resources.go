package simulation

import (
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// WriteResources keeps the pod's exclusive resources in its directory.
func (d disk) WriteResources(uid string, given *journaletv1.GivenResources) error {
	n := d.run.world.files
	if given == nil {
		delete(n.resources, uid)
		return nil
	}
	if err := d.work(); err != nil {
		return err
	}
	n.given++
	n.resources[uid] = proto.CloneOf(given)
	n.resources[uid].Number = n.given
	return nil
}

// foundResources does what runtime/agent does at its start.
func (r *run) foundResources() map[string]*journaletv1.GivenResources {
	found := map[string]*journaletv1.GivenResources{}
	known := r.cells.Decider(messages.Node).(*node.Actor)
	for uid, given := range r.world.files.resources {
		if !known.HasResources(uid) {
			found[uid] = proto.CloneOf(given)
		}
	}
	return found
}
