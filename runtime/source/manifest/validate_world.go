package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxHostnameBytes is the kernel's bound of a host name.
const maxHostnameBytes = 64

// hostUsers reports whether the pod's user IDs are the host's, which is the default.
func hostUsers(s *corev1.PodSpec) bool { return s.HostUsers == nil || *s.HostUsers }

// validateHostUsers refuses the host's other namespaces for a pod with a user namespace of its own.
func validateHostUsers(s *corev1.PodSpec, spec *field.Path) (errs field.ErrorList) {
	if hostUsers(s) {
		return nil
	}
	for _, host := range []struct {
		name   string
		shared bool
	}{{"hostNetwork", s.HostNetwork}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}} {
		if host.shared {
			errs = append(errs, field.Forbidden(spec.Child(host.name), "cannot be used together with hostUsers: false"))
		}
	}
	return errs
}

func validateHostnameOverride(s *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	if s.HostnameOverride == nil {
		return nil
	}
	if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(at, "cannot be used together with setHostnameAsFQDN: true"))
	}
	if s.HostNetwork {
		errs = append(errs, field.Forbidden(at, "cannot be used together with hostNetwork: true"))
	}
	if len(*s.HostnameOverride) > maxHostnameBytes {
		errs = append(errs, field.TooLong(at, "", maxHostnameBytes))
	}
	return append(errs, syntax(at, *s.HostnameOverride, validation.IsDNS1123Subdomain)...)
}

// validateHugePages checks an amount of huge pages: a multiple of the size in the resource's name.
func validateHugePages(name corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	text := strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix)
	size, err := resource.ParseQuantity(text)
	switch {
	case err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 || size.Value() <= 0:
		return field.ErrorList{field.Invalid(at, string(name), "must end in a page size, such as hugepages-2Mi")}
	case q.Value()%size.Value() != 0:
		return field.ErrorList{field.Invalid(at, q.String(), "must be a multiple of the page size, "+text)}
	}
	return nil
}

// validateHugePageLimits checks that huge pages have a limit that is equal to the request, and that the container asks
// for CPU or memory, too.
func validateHugePageLimits(res *corev1.ResourceRequirements, at *field.Path) (errs field.ErrorList) {
	huge := false
	for _, name := range sortedNames(res.Requests) {
		if !isHuge(name) {
			continue
		}
		huge = true
		request := res.Requests[name]
		switch limit, limited := res.Limits[name]; {
		case !limited:
			errs = append(errs, field.Required(at.Child("limits"), string(name)+" needs a limit equal to its request"))
		case request.Cmp(limit) < 0: // a larger one is refused for every resource
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), request.String(),
				"must be equal to the limit, "+limit.String()))
		}
	}
	for _, list := range []corev1.ResourceList{res.Limits, res.Requests} {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if _, found := list[name]; found {
				return errs
			}
		}
	}
	if huge {
		errs = append(errs, field.Forbidden(at, "huge pages need a request or limit of cpu or memory beside them"))
	}
	return errs
}
