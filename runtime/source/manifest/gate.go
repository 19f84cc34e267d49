package manifest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	actor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/defect"
)

// Bounds of a pod of the API server, which validates what it has not bounded: a Secret's name may have a megabyte.
// What a pod adds to a record is below 1 MiB with them (test/scenario has the largest pod), and nothing that has run
// on a kubelet is beyond them. Those of static pods are in validate_counts.go.
const (
	// maxEphemeral bounds ephemeral containers, which are never removed from a pod.
	maxEphemeral = 100
	// maxVolumes and maxReferences bound the volumes of a pod and the objects that it refers to.
	maxVolumes    = 1000
	maxReferences = 1000
	// maxReferenceBytes bounds the references as they are recorded: 1000 names of the greatest length are half of it.
	maxReferenceBytes = 512 << 10
	// maxAdmissionBytes bounds a pod's request for admission, which lists its host ports and devices.
	maxAdmissionBytes = 768 << 10
	// maxNameBytes bounds the name of an object: the bound of a DNS name. No object has a longer name.
	maxNameBytes = validation.DNS1123SubdomainMaxLength
	// maxImageBytes bounds an image: a name of 255 bytes, a tag of 128 and a digest of sha512 have 520.
	maxImageBytes = 1024
	// maxHostIPBytes bounds an IP address as text, with its zone.
	maxHostIPBytes = 64
	// maxTextBytes bounds every other text that is not the pod's own data: the longest are paths.
	maxTextBytes = maxPathBytes + 1
	// maxReadBytes bounds the memory of what the agent itself reads of a pod, which stays as long as the pod does: Light's
	// spec. A byte of an object may be 10 of memory (an empty toleration, a value of a selector). 10,000 host ports take
	// 0.6 MiB, 1000 volumes of Secrets with the longest names 0.7, the nodes of a cluster of 5000 in an affinity 0.3.
	maxReadBytes = 1 << 20
)

// data are the fields of pods that hold what only the pod's own processes read. MaxPodBytes bounds them.
var data = map[string]bool{
	"Container.Command": true, "Container.Args": true, "EphemeralContainerCommon.Command": true,
	"EphemeralContainerCommon.Args": true, "EnvVar.Value": true, "ExecAction.Command": true, "HTTPHeader.Value": true,
	"HTTPGetAction.Path": true, "CSIVolumeSource.VolumeAttributes": true, "FlexVolumeSource.Options": true,
	"WindowsSecurityContextOptions.GMSACredentialSpec": true,
	// A signer reads it, too: what sends a request reads the whole manifest.
	"PodCertificateProjection.UserAnnotations": true,
}

// fieldBounds are the bounds of fields other than maxTextBytes.
var fieldBounds = map[string]int{
	"LocalObjectReference.Name": maxNameBytes, "SecretVolumeSource.SecretName": maxNameBytes,
	"PersistentVolumeClaimVolumeSource.ClaimName": maxNameBytes, "CSIVolumeSource.Driver": maxNameBytes,
	"AzureFileVolumeSource.SecretName": maxNameBytes, "ClusterTrustBundleProjection.Name": maxNameBytes,
	"PodSpec.ServiceAccountName": maxNameBytes, "PodSpec.DeprecatedServiceAccount": maxNameBytes,
	"PodResourceClaim.ResourceClaimName": maxNameBytes, "PodResourceClaim.ResourceClaimTemplateName": maxNameBytes,
	"PodReadinessGate.ConditionType": validation.DNS1123SubdomainMaxLength + 1 + validation.DNS1123LabelMaxLength,
	"ContainerPort.HostIP":           maxHostIPBytes, "Container.Image": maxImageBytes,
	"EphemeralContainerCommon.Image": maxImageBytes, "ImageVolumeSource.Reference": maxImageBytes,
}

// Defect is why a pod is refused on which a function panicked that reads pods. The panic itself may quote the pod.
const Defect = "a manifest on which the agent fails; " + defect.ReportManifest

// Gate returns what of a pod of the API server is beyond what this node takes, with the field and the bound; "" for a
// pod that it takes. A pod on which Gate panics is refused as a Defect: it must not stop other pods.
func Gate(pod *corev1.Pod) string { return gateBy(pod, gate) }

func gateBy(pod *corev1.Pod, gate func(*corev1.Pod) string) (why string) {
	defer defect.Recover(func(string) { why = Defect })
	return gate(pod)
}

func gate(pod *corev1.Pod) string {
	if n := pod.ObjectMeta.Size() + pod.Spec.Size() - managedBytes(pod); n > MaxPodBytes {
		return beyond("a pod", n, "bytes", MaxPodBytes)
	}
	if err := CheckNames(pod); err != nil {
		return err.Error()
	}
	if why := cmp.Or(gateCounts(pod), gateTexts(pod)); why != "" {
		return why
	}
	refs := references.References(pod)
	size := proto.Size(&journaletv1.ObjectsSet{Refs: refs})
	request := actor.AdmissionRequest(&journaletv1.PodRef{Api: &journaletv1.ApiPod{}}, pod)
	return cmp.Or(
		beyond("references to objects", len(refs), "entries", maxReferences),
		beyond("references to objects", size, "bytes", maxReferenceBytes),
		beyond("host ports and extended resources", proto.Size(request), "bytes", maxAdmissionBytes),
		gateMemory(pod),
	)
}

// gateMemory refuses a pod if what the agent itself reads of it takes too much memory. Only large pods are counted:
// what a pod may have without a bound of its number takes less than 32 times its bytes in protobuf (an empty term of a
// node selector 24).
func gateMemory(pod *corev1.Pod) string {
	if pod.Spec.Size() <= maxReadBytes/32 {
		return ""
	}
	return beyond("spec without arguments, variables and the like", memory(Light(pod)), "bytes of memory", maxReadBytes)
}

func beyond(what string, n int, unit string, most int) string {
	if n <= most {
		return ""
	}
	return fmt.Sprintf("%s of %d %s, more than %d", what, n, unit, most)
}

// managedBytes returns how many bytes of a pod are managedFields, which are not kept.
func managedBytes(pod *corev1.Pod) (n int) {
	for i := range pod.ManagedFields {
		n += pod.ManagedFields[i].Size()
	}
	return n
}

func gateCounts(pod *corev1.Pod) string {
	s := &pod.Spec
	ports := 0
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			ports += len(slices.DeleteFunc(slices.Clone(list[i].Ports), func(p corev1.ContainerPort) bool {
				return p.HostPort == 0
			}))
		}
	}
	labels := 0
	for key, value := range pod.Labels {
		labels += len(key) + len(value)
	}
	return cmp.Or(
		beyond("spec.containers and spec.initContainers", len(s.Containers)+len(s.InitContainers), "entries", MaxContainers),
		beyond("spec.ephemeralContainers", len(s.EphemeralContainers), "entries", maxEphemeral),
		beyond("spec.volumes", len(s.Volumes), "entries", maxVolumes),
		beyond("spec.readinessGates", len(s.ReadinessGates), "entries", maxReadinessGates),
		beyond("spec.containers with host ports", ports, "entries", maxHostPorts),
		beyond("metadata.labels", labels, "bytes", maxLabelBytes),
	)
}

// gateTexts returns the first text of a pod that is too long, or no UTF-8.
func gateTexts(pod *corev1.Pod) string {
	for key, value := range pod.Annotations {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return "metadata.annotations that are not UTF-8"
		}
	}
	if at, why := texts(reflect.ValueOf(&pod.Spec).Elem(), maxTextBytes); why != "" {
		return "spec" + at + why
	}
	return ""
}

// texts checks each text of a value against the bound most; 0 is no bound. It returns the path, below the value, of the
// first text that is refused, and why. A pod may have 100,000 texts, so a path is built for the refused text alone.
func texts(v reflect.Value, most int) (at, why string) {
	switch v.Kind() {
	case reflect.String:
		switch {
		case !utf8.ValidString(v.String()):
			return "", " that is not UTF-8"
		case most > 0:
			return "", beyond("", v.Len(), "bytes", most)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return texts(v.Elem(), most)
		}
	case reflect.Struct:
		for i, f := range fieldsOf(v.Type()) {
			if at, why := texts(v.Field(i), f.most); why != "" {
				return f.path + at, why
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if at, why := texts(v.Index(i), most); why != "" {
				return fmt.Sprintf("[%d]%s", i, at), why
			}
		}
	case reflect.Map:
		keys := v.MapKeys() // in order: each read of a pod gives the same refusal
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			_, ofKey := texts(key, most)
			_, ofValue := texts(v.MapIndex(key), most)
			if why := cmp.Or(ofKey, ofValue); why != "" {
				return "", why
			}
		}
	}
	return "", ""
}

// boundField is one field of a pod's struct: the path from the struct to the field, and the bound of the field's texts.
type boundField struct {
	path string
	most int
}

// boundFields caches the fields of each type that texts has met, by reflect.Type: some hundred types.
var boundFields sync.Map

func fieldsOf(typ reflect.Type) []boundField {
	if has, ok := boundFields.Load(typ); ok {
		return has.([]boundField) //nolint:forcetypeassert // nothing else is put there
	}
	fields := make([]boundField, typ.NumField())
	for i := range fields {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous { // an embedded field has no path of its own
			fields[i].path = "." + cmp.Or(name, f.Name)
		}
		if full := typ.Name() + "." + f.Name; !data[full] {
			fields[i].most = cmp.Or(fieldBounds[full], maxTextBytes)
		}
	}
	boundFields.Store(typ, fields)
	return fields
}
