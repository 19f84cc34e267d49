package manifest

// Limits are the constants of this package that docs/LIMITS.md lists, by name.
var Limits = map[string]int{
	"DefaultMaxBytes": int(DefaultMaxBytes), "MaxPods": MaxPods, "maxFileValues": maxFileValues,
	"maxFileBytes": maxFileBytes, "maxDepth": maxDepth, "maxResolved": maxResolved, "maxDirectives": maxDirectives,
	"MaxProblems": MaxProblems, "MaxPodBytes": MaxPodBytes, "maxPodValues": maxPodValues,
	"MaxContainers": MaxContainers, "maxReadinessGates": maxReadinessGates, "maxHostPorts": maxHostPorts,
	"maxDataBytes": maxDataBytes, "maxTrustBundleBytes": maxTrustBundleBytes,
	"maxEphemeral": maxEphemeral, "maxVolumes": maxVolumes, "maxReferences": maxReferences,
	"maxReferenceBytes": maxReferenceBytes, "maxAdmissionBytes": maxAdmissionBytes, "maxNameBytes": maxNameBytes,
	"maxImageBytes": maxImageBytes, "maxHostIPBytes": maxHostIPBytes, "maxTextBytes": maxTextBytes,
	"maxLabelBytes": maxLabelBytes, "maxPathBytes": maxPathBytes, "maxReadBytes": maxReadBytes,
}
