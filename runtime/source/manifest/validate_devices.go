package manifest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/journalet/journalet/actors/devices"
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

// validateExtended checks the name and the amount of what a device plugin offers (API: extended resource).
func validateExtended(name corev1.ResourceName, q resource.Quantity, at *field.Path) (errs field.ErrorList) {
	for _, why := range validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix + string(name)) {
		errs = append(errs, field.Invalid(at, string(name), why))
	}
	if q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
	}
	return errs
}

// validateOvercommit checks that devices are given by limits, and that requests are equal to them.
func validateOvercommit(res *corev1.ResourceRequirements, at *field.Path) (errs field.ErrorList) {
	for _, name := range sortedNames(res.Requests) {
		if !devices.IsResource(name) {
			continue
		}
		request, p := res.Requests[name], at.Child("requests").Key(string(name))
		switch limit, limited := res.Limits[name]; {
		case !limited:
			errs = append(errs, field.Required(at.Child("limits").Key(string(name)), "devices are given by limits"))
		case limit.Cmp(request) != 0:
			errs = append(errs, field.Invalid(p, request.String(),
				fmt.Sprintf("must be equal to the limit, %s", limit.String())))
		}
	}
	return errs
}
