package node

import (
	"sync"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// features are what a kubelet of this version may declare, and whether this agent carries it out. The control plane
// relies on it: it binds pods, permits resizes and passes WebSockets on by what a Node declares.
var features = gates{
	"ExtendWebSocketsToKubelet":               true,
	"InPlacePodLevelResourcesVerticalScaling": true,
	"InPlacePodVerticalScalingInitContainers": true,
	"RestartAllContainersOnContainerExits":    true,

	"DRANodeAllocatableResources":                  false,
	"DRAOptionalNodeOperations":                    false,
	"InPlacePodVerticalScalingMemoryBackedVolumes": false,
	"UserNamespacesHostNetworkSupport":             false,
	"VolumeBindMountOptions":                       false,
}

// gates are feature gates by name.
type gates map[string]bool

// Enabled reports whether a gate is on.
func (g gates) Enabled(name string) bool { return g[name] }

// declaredFeatures returns what the Node declares, sorted. It is not to be changed.
var declaredFeatures = sync.OnceValue(func() []string {
	return nodedeclaredfeatures.DefaultFramework.DiscoverNodeFeatures(&nodedeclaredfeatures.NodeConfiguration{
		FeatureGates: features, Version: utilversion.MustParseSemantic(KubernetesVersion),
	})
})
