package manifest

import (
	"crypto/md5" //nolint:gosec // for a UID, as in the kubelet, not for security
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	actor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
)

// Annotations that the kubelet puts on pods that do not come from the API server.
const (
	ConfigHashAnnotation   = "kubernetes.io/config.hash"   // the pod's UID
	ConfigSourceAnnotation = "kubernetes.io/config.source" // "file" or "http"
	ConfigSeenAnnotation   = "kubernetes.io/config.seen"   // a time; never set by this package
	ConfigMirrorAnnotation = "kubernetes.io/config.mirror" // on the API server's copy of a static pod
)

// Priorities of the two classes of every cluster, from Kubernetes' scheduling API.
const (
	priorityClusterCritical = "system-cluster-critical"
	priorityNodeCritical    = "system-node-critical"

	valueClusterCritical int32 = 2_000_000_000
	valueNodeCritical    int32 = 2_000_001_000
)

// checkStatic refuses fields that only a pod from the API server can have, by the kubelet's rule for static pods.
func checkStatic(r *report, pod *corev1.Pod) {
	spec := field.NewPath("spec")
	if pod.Spec.ServiceAccountName != "" {
		refuseAPIOnly(r, spec.Child("serviceAccountName"), "a service account")
	}
	if pod.Spec.DeprecatedServiceAccount != "" {
		refuseAPIOnly(r, spec.Child("serviceAccount"), "a service account")
	}
	if mount := pod.Spec.AutomountServiceAccountToken; mount != nil && *mount {
		refuseAPIOnly(r, spec.Child("automountServiceAccountToken"), "a service account's token")
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		refuseAPIOnly(r, spec.Child("imagePullSecrets"), "secrets")
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		refuseAPIOnly(r, spec.Child("resourceClaims"), "resource claims")
	}
	if _, mirror := pod.Annotations[ConfigMirrorAnnotation]; mirror {
		r.addAt("metadata.annotations["+ConfigMirrorAnnotation+"]", CodeStaticPod,
			"marks the API server's copy of a static pod, and this is the original", "remove the annotation")
	}
	checkPriorityClass(r, &pod.Spec)
	for i := range pod.Spec.Volumes {
		staticVolume(r, &pod.Spec.Volumes[i], spec.Child("volumes").Index(i))
	}
	for i := range pod.Spec.InitContainers {
		staticContainer(r, &pod.Spec.InitContainers[i], spec.Child("initContainers").Index(i))
	}
	for i := range pod.Spec.Containers {
		staticContainer(r, &pod.Spec.Containers[i], spec.Child("containers").Index(i))
	}
}

func refuseAPIOnly(r *report, at *field.Path, what string) {
	r.addAt(at.String(), CodeStaticPod, "a pod from a manifest cannot use "+what+", which the API server keeps",
		"remove it, or create the pod in the API server")
}

func checkPriorityClass(r *report, spec *corev1.PodSpec) {
	if spec.PriorityClassName == "" {
		return
	}
	value, known := priorityOf(spec.PriorityClassName)
	if !known {
		r.addAt("spec.priorityClassName", CodeStaticPod, fmt.Sprintf("class %q is looked up in the API server",
			spec.PriorityClassName), "use "+priorityNodeCritical+" or "+priorityClusterCritical+", or set spec.priority")
	} else if spec.Priority != nil && *spec.Priority != value {
		r.addAt("spec.priority", CodeInvalid, fmt.Sprintf("is %d, and class %s means %d", *spec.Priority,
			spec.PriorityClassName, value), "remove one of the two")
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
	switch {
	case v.Secret != nil:
		refuseAPIOnly(r, at.Child("secret"), "a secret")
	case v.ConfigMap != nil:
		refuseAPIOnly(r, at.Child("configMap"), "a config map")
	case v.PersistentVolumeClaim != nil:
		refuseAPIOnly(r, at.Child("persistentVolumeClaim"), "a persistent volume claim")
	case v.Ephemeral != nil:
		refuseAPIOnly(r, at.Child("ephemeral"), "a persistent volume claim")
	case v.CSI != nil:
		refuseAPIOnly(r, at.Child("csi"), "a CSI driver")
	case v.Glusterfs != nil:
		refuseAPIOnly(r, at.Child("glusterfs"), "an Endpoints object")
	}
	if v.Projected == nil {
		return
	}
	for i, s := range v.Projected.Sources {
		source := at.Child("projected", "sources").Index(i)
		switch {
		case s.Secret != nil:
			refuseAPIOnly(r, source.Child("secret"), "a secret")
		case s.ConfigMap != nil:
			refuseAPIOnly(r, source.Child("configMap"), "a config map")
		case s.ServiceAccountToken != nil:
			refuseAPIOnly(r, source.Child("serviceAccountToken"), "a service account's token")
		case s.ClusterTrustBundle != nil:
			refuseAPIOnly(r, source.Child("clusterTrustBundle"), "a trust bundle")
		case s.PodCertificate != nil:
			refuseAPIOnly(r, source.Child("podCertificate"), "a pod certificate")
		}
	}
}

func staticContainer(r *report, c *corev1.Container, at *field.Path) {
	for i, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		from := at.Child("env").Index(i).Child("valueFrom")
		if e.ValueFrom.SecretKeyRef != nil {
			refuseAPIOnly(r, from.Child("secretKeyRef"), "a secret")
		}
		if e.ValueFrom.ConfigMapKeyRef != nil {
			refuseAPIOnly(r, from.Child("configMapKeyRef"), "a config map")
		}
	}
	for i, e := range c.EnvFrom {
		from := at.Child("envFrom").Index(i)
		if e.SecretRef != nil {
			refuseAPIOnly(r, from.Child("secretRef"), "a secret")
		}
		if e.ConfigMapRef != nil {
			refuseAPIOnly(r, from.Child("configMapRef"), "a config map")
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
	if pod.UID == "" {
		pod.UID = stableUID(r, pod, path, opts)
	}
	pod.Name += "-" + opts.NodeName
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
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
	content, err := json.Marshal(pod)
	if err != nil {
		r.addAt("", CodeInvalid, "cannot be written as JSON", "report this manifest as a bug of the agent")
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
