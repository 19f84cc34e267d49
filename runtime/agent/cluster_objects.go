package agent

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/cluster/classes"
	"github.com/journalet/journalet/runtime/cluster/services"
	"github.com/journalet/journalet/runtime/objects"
	objectapi "github.com/journalet/journalet/runtime/objects/api"
	"github.com/journalet/journalet/runtime/objects/offlinecopy"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// clusterObjects are what containers get from the API server (ADR 056).
type clusterObjects struct {
	objects  *objectapi.Backing
	services *services.Services
	classes  *classes.Classes
	kept     *offlinecopy.Store
}

// newClusterObjects creates the drivers without running them.
func (a *agent) newClusterObjects(c *cluster) (err error) {
	dir := filepath.Join(a.cfg.RootDir, own.Offline)
	seal, err := offlinecopy.Seal(context.Background(), a.cfg.OfflineSecrets, a.cfg.RootDir, dir)
	if err != nil {
		return err
	}
	c.kept = offlinecopy.New(offlinecopy.Options{Dir: dir, Seal: seal, Log: a.log})
	a.closers = append(a.closers, c.kept.Flush)
	away := func() bool { return !c.contact.Reachable() }
	c.services = services.New(c.client, c.kept, away, a.log)
	c.classes = classes.New(c.client, c.kept, away, a.log)
	c.clusterObjects.objects = objectapi.New(objectapi.Options{
		Client: c.client, Kept: c.kept, NodeName: a.facts.NodeName, Pod: a.manifests.Of, Event: c.reports.podWarning,
		Log: a.log,
	})
	return nil
}

// objectsAPI returns where objects of the API server come from; nil without a cluster.
func (a *agent) objectsAPI() objects.Backing {
	if a.cluster == nil {
		return nil
	}
	return a.cluster.clusterObjects.objects
}

// serviceEnv returns the variables of services. Only pods of the API server wait for them: static pods may be the API
// server.
func (c *cluster) serviceEnv(ctx context.Context, pod *corev1.Pod, links bool) (map[string]string, error) {
	return c.services.Env(ctx, pod.Namespace, links, !manifest.IsStatic(pod))
}

// runtimeHandler returns the runtime handler of a pod of the API server.
func (c *cluster) runtimeHandler(pod *corev1.Pod) (handler string, ok bool, err error) {
	if manifest.IsStatic(pod) {
		return "", false, nil
	}
	handler, err = c.classes.Handler(pod)
	return handler, true, err
}
