package manifest

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pattern"
)

// refusal is what a problem reports of a field that is refused.
type refusal struct{ message, remedy string }

const (
	notYetMessage = "not supported by this version"
	notYetRemedy  = "remove it, or run this pod with an agent that supports it"
	mountRemedy   = "mount the storage on the node, and write its directory as a hostPath"
)

// serverFields are the fields that only an API server uses. Most pods with them were exported from an API server.
var serverFields = []string{
	"metadata.generateName", "metadata.selfLink", "metadata.resourceVersion", "metadata.generation",
	"metadata.deletionTimestamp", "metadata.ownerReferences", "metadata.managedFields", "metadata.finalizers",
}

// volumeKind matches the field that names the kind of a volume.
var volumeKind = pattern.Lazy(`^spec\.volumes\[[0-9]+\]\.([A-Za-z]+)$`)

// Kinds of volumes that Kubernetes does not carry out any more, and kinds that it leaves to a CSI driver.
var (
	removedKinds = []string{"gitRepo", "glusterfs", "rbd", "cephfs", "flocker", "quobyte", "photonPersistentDisk",
		"scaleIO", "storageos"}
	driverKinds = []string{"gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile", "cinder",
		"vsphereVolume", "portworxVolume"}
	networkKinds = []string{"iscsi", "fc", "flexVolume"}
)

// refusalOf returns the message and the remedy for a field that this version does not support.
func refusalOf(at string) refusal {
	kind := ""
	if m := volumeKind().FindStringSubmatch(at); m != nil {
		kind = m[1]
	}
	switch {
	case slices.Contains(serverFields, at):
		return refusal{"only an API server uses it", "remove it"}
	case kind == "gitRepo":
		return refusal{"was removed from Kubernetes", "clone into an emptyDir by an init container"}
	case slices.Contains(removedKinds, kind):
		return refusal{"was removed from Kubernetes", mountRemedy}
	case slices.Contains(driverKinds, kind):
		return refusal{"Kubernetes leaves it to a CSI driver, and this node has none", mountRemedy}
	case slices.Contains(networkKinds, kind):
		return refusal{notYetMessage, mountRemedy}
	case at == "spec.ephemeralContainers":
		return refusal{"are added to a running pod through an API server", "write them as containers"}
	}
	return refusal{notYetMessage, notYetRemedy}
}

// migratedKind returns the field of a volume of a cloud that is for a CSI driver; "" for another volume.
func migratedKind(v *corev1.Volume) string {
	source := reflect.ValueOf(v.VolumeSource)
	for i := range source.NumField() {
		if name := jsonName(source.Type().Field(i)); isSet(source.Field(i)) && slices.Contains(driverKinds, name) {
			return name
		}
	}
	return ""
}

// notYet refuses a field, or what one of its values asks for.
func (r *report) notYet(at, what string) {
	f := refusalOf(at)
	if what != "" {
		f.message = what + " is " + f.message
	}
	r.addAt(at, CodeNotYet, f.message, f.remedy)
}
