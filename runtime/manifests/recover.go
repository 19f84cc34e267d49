package manifests

import (
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/fold"
)

// Name implements drivers.Driver.
func (c *Cache) Name() string { return "manifests" }

// Recover takes the manifests of all pods, without reading them.
func (c *Cache) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, a *pod.Actor) { c.own(ref.ID, a.Pod().GetPod().GetDigest()) })
}
