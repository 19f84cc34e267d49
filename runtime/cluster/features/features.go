package features

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// KubernetesVersion is the version of the kubelet that this node stands for.
const KubernetesVersion = "v1.37.1"

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

var version = sync.OnceValue(func() *utilversion.Version { return utilversion.MustParseSemantic(KubernetesVersion) })

// Declared returns what the Node declares, sorted. It is not to be changed.
var Declared = sync.OnceValue(func() []string {
	return nodedeclaredfeatures.DefaultFramework.DiscoverNodeFeatures(&nodedeclaredfeatures.NodeConfiguration{
		FeatureGates: features, Version: version(),
	})
})

// Lacking returns the features that a pod needs of its node and that the Node does not declare, in the order of the
// library. A kubelet rejects such a pod (pkg/kubelet/lifecycle/handlers.go): a scheduler that knows of the features
// does not bind it, others do.
func Lacking(spec *corev1.PodSpec) []string {
	all := nodedeclaredfeatures.DefaultFramework
	needs, err := all.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: spec, Status: &corev1.PodStatus{}},
		version())
	if err != nil || needs.IsEmpty() {
		return nil // the only error is a missing version
	}
	match, err := all.MatchNodeFeatureSet(needs, all.TryMap(Declared()))
	if err != nil {
		panic("features: " + err.Error()) // two sets of one framework
	}
	return match.UnsatisfiedRequirements
}
