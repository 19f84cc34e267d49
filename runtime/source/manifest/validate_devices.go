package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// isDevice reports whether a resource is a device by its CDI name, vendor.com/class=device, as Podman's kube play has
// it. No name of a Kubernetes resource has an equals sign.
func isDevice(name corev1.ResourceName) bool { return strings.Contains(string(name), "=") }

// validateDevices checks that devices are given by limits.
func validateDevices(res *corev1.ResourceRequirements, at *field.Path) (errs field.ErrorList) {
	for _, name := range sortedNames(res.Requests) {
		if _, limited := res.Limits[name]; isDevice(name) && !limited {
			q := res.Requests[name]
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), q.String(), "a device is given by limits"))
		}
	}
	return errs
}

// validateDevice checks the name and the amount of a device.
func validateDevice(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	if _, _, _, err := parser.ParseQualifiedName(string(name)); err != nil {
		return field.ErrorList{field.Invalid(at, string(name), "is no CDI name, such as vendor.com/class=device")}
	}
	if q.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) != 0 {
		return field.ErrorList{field.Invalid(at, q.String(), "must be 1: a device is given or not")}
	}
	return nil
}

// extendedResource refuses a resource that device plugins offer in a cluster.
func (r *report) extendedResource(at string) {
	r.addAt(at, CodeNotYet, "an extended resource is not supported by this version: no device plugin offers it",
		"remove it; where the node has a CDI specification of the device, name that instead, as vendor.com/class=device: 1")
}
