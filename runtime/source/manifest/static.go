package manifest

import (
	"cmp"
	"crypto/md5" //nolint:gosec // for a UID, as in the kubelet, not for security
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	actor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/defect"
)

// Annotations that the kubelet puts on pods that do not come from the API server.
const (
	ConfigHashAnnotation   = "kubernetes.io/config.hash"   // the pod's UID
	ConfigSourceAnnotation = "kubernetes.io/config.source" // "file" or "http"
	ConfigSeenAnnotation   = "kubernetes.io/config.seen"   // a time; never set by this package
	ConfigMirrorAnnotation = "kubernetes.io/config.mirror" // on the API server's copy of a static pod
)

// IsStatic reports whether a pod is not of the API server. Manifests of the API server are stored without the
// annotation, which their authors may have written: see FromAPI.
func IsStatic(pod *corev1.Pod) bool { return pod.Annotations[ConfigSourceAnnotation] != "" }

// Priorities of the two classes of every cluster, from Kubernetes' scheduling API.
const (
	priorityClusterCritical = "system-cluster-critical"
	priorityNodeCritical    = "system-node-critical"

	valueClusterCritical int32 = 2_000_000_000
	valueNodeCritical    int32 = 2_000_001_000
)

// checkStatic refuses fields that only a pod from the API server can have. Unlike the kubelet's static pods, pods may
// refer to ConfigMaps, Secrets, trust bundles and tokens: the node has them as files (ADR 038).
func checkStatic(r *report, pod *corev1.Pod) {
	spec := field.NewPath("spec")
	if len(pod.Spec.ResourceClaims) > 0 {
		refuse(r, spec.Child("resourceClaims"), noClaims, claimsRemedy)
	}
	for i := range pod.Spec.InitContainers {
		staticClaims(r, &pod.Spec.InitContainers[i], spec.Child("initContainers").Index(i))
	}
	for i := range pod.Spec.Containers {
		staticClaims(r, &pod.Spec.Containers[i], spec.Child("containers").Index(i))
	}
	if _, mirror := pod.Annotations[ConfigMirrorAnnotation]; mirror {
		r.addAt("metadata.annotations["+ConfigMirrorAnnotation+"]", CodeStaticPod,
			"marks the API server's copy of a static pod, and this is the original", "remove the annotation")
	}
	for i := range pod.Spec.Volumes {
		staticVolume(r, &pod.Spec.Volumes[i], spec.Child("volumes").Index(i))
	}
}

// What is reported about resource claims of a pod that is not of an API server.
const (
	noClaims     = "an API server keeps resource claims, and this node has none"
	claimsRemedy = "remove it, or name a device by CDI in the limits of a container"
)

// staticClaims refuses the claims of a container.
func staticClaims(r *report, c *corev1.Container, at *field.Path) {
	if len(c.Resources.Claims) > 0 {
		refuse(r, at.Child("resources", "claims"), noClaims, claimsRemedy)
	}
}

func refuse(r *report, at *field.Path, message, remedy string) {
	r.addAt(at.String(), CodeStaticPod, message, remedy)
}

// applyPriorityClass sets the pod's priority to its class's priority, as the API server's admission does.
func applyPriorityClass(r *report, spec *corev1.PodSpec, classes *Classes) {
	if spec.PriorityClassName == "" {
		return
	}
	value, known := classes.priorityOf(spec.PriorityClassName)
	switch {
	case !known:
		r.addAt("spec.priorityClassName", CodeNotFound, fmt.Sprintf("there is no PriorityClass %q on this node",
			spec.PriorityClassName), "write it beside the pod or into --objects-path, or set spec.priority instead")
	case spec.Priority != nil && *spec.Priority != value:
		r.addAt("spec.priority", CodeInvalid, fmt.Sprintf("is %d, and class %s means %d", *spec.Priority,
			spec.PriorityClassName, value), "remove one of the two")
	default:
		spec.Priority = &value
	}
}

func priorityOf(class string) (int32, bool) {
	switch class {
	case priorityNodeCritical:
		return valueNodeCritical, true
	case priorityClusterCritical:
		return valueClusterCritical, true
	}
	return 0, false
}

func staticVolume(r *report, v *corev1.Volume, at *field.Path) {
	const claim = "an API server keeps claims, and this node has none"
	switch {
	case v.PersistentVolumeClaim != nil:
		refuse(r, at.Child("persistentVolumeClaim"), claim, "write the volume's directory as a hostPath")
	case v.Ephemeral != nil:
		refuse(r, at.Child("ephemeral"), claim, "write an emptyDir, whose data also end with the pod")
	case v.CSI != nil:
		refuse(r, at.Child("csi"), "an API server keeps CSI drivers, and this node has none",
			mountRemedy)
	case references.IsMigrated(v):
		r.notYet(at.Child(migratedKind(v)).String(), "")
	}
	if v.Projected == nil {
		return
	}
	for i, s := range v.Projected.Sources {
		if s.PodCertificate != nil {
			refuse(r, at.Child("projected", "sources").Index(i).Child("podCertificate"),
				"an API server issues pod certificates, and this node has none", "put a certificate into a Secret")
		}
	}
}

func checkNodeName(r *report, pod *corev1.Pod, node string) {
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node {
		r.addAt("spec.nodeName", CodeInvalid, fmt.Sprintf("is %q, and this node is %q", pod.Spec.NodeName, node),
			"remove it, or move the manifest to that node")
	}
}

// applyStatic binds the pod to this node: it sets the UID, the name with the node's suffix, namespace, node,
// annotations and the toleration that keeps static pods when the node has problems.
func applyStatic(r *report, pod *corev1.Pod, path string, opts Options) {
	pod.Kind, pod.APIVersion = "Pod", "v1"
	var uid types.UID
	if pod.UID == "" {
		uid = stableUID(r, pod, path, opts)
	}
	pod.Name += "-" + opts.NodeName
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if uid != "" && opts.UID != nil {
		uid = types.UID(opts.UID(pod.Namespace, pod.Name, string(uid)))
	}
	pod.UID = cmp.Or(pod.UID, uid)
	pod.Spec.NodeName = opts.NodeName
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	delete(pod.Annotations, ConfigSeenAnnotation)
	pod.Annotations[ConfigHashAnnotation] = string(pod.UID)
	pod.Annotations[ConfigSourceAnnotation] = string(opts.Source)
	if opts.Source == SourceFile {
		tolerateNoExecute(&pod.Spec)
	}
}

// stableUID returns a UID of the author's content, the node and the path. Comments, formatting, defaults that a later
// version adds and the pod's position in the manifest do not change it. Two pods of one manifest differ at least in
// their full name. It has 32 hexadecimal digits, as the kubelet's; the value differs, because the kubelet hashes its
// internal types.
func stableUID(r *report, pod *corev1.Pod, path string, opts Options) types.UID {
	qos := ""
	if resources.Resizable(pod) {
		// A resize in place keeps the UID; another QoS class changes it (ADR 014).
		qos = "qos:" + string(actor.QOS(pod))
		pod = resources.WithoutResizable(pod)
	}
	content, err := json.Marshal(pod) // with its escapes: another encoding is another UID
	if err != nil {
		r.addAt("", CodeInvalid, "cannot be written as JSON", defect.ReportManifest)
		return ""
	}
	place := "file"
	h := md5.New()
	h.Write(content)
	h.Write([]byte(qos))
	if opts.Source == SourceHTTP {
		place = "url"
	} else {
		fmt.Fprintf(h, "host:%s", opts.NodeName)
	}
	fmt.Fprintf(h, "%s:%s", place, path)
	return types.UID(hex.EncodeToString(h.Sum(nil)))
}

func tolerateNoExecute(spec *corev1.PodSpec) {
	all := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	found := false
	for i := range spec.Tolerations {
		if spec.Tolerations[i].MatchToleration(&all) {
			spec.Tolerations[i], found = all, true // removes a time limit
		}
	}
	if !found {
		spec.Tolerations = append(spec.Tolerations, all)
	}
}
