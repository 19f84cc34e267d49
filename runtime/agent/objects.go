package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
	objectfiles "github.com/journalet/journalet/runtime/objects/files"
)

// newObjects creates the store of the objects that pods refer to.
func (a *agent) newObjects() *objects.Store {
	return objects.New(objects.Options{
		RootDir: a.cfg.RootDir, Log: a.log, API: a.objectsAPI(),
		Backing: objectfiles.New(objectfiles.Options{
			Manifests: a.cfg.StaticPodPath, Objects: a.cfg.ObjectsPath, Tokens: a.cfg.ServiceAccountTokenFiles,
			Reread: a.cfg.FileCheckFrequency, Log: a.log,
		}),
		Sink: func(ctx context.Context, r *journaletv1.ObjectsRead) error {
			e := messages.NewEvent(r)
			return a.host.Fact(ctx, messages.Pod(r.GetUid()), e)
		},
	})
}

// hasToken reports whether the node has a token of a service account.
func (a *agent) hasToken(namespace, account string) bool {
	return a.cfg.ServiceAccountTokenFiles[namespace+"/"+account] != ""
}
