package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/actors/resources"
)

// containerScope is the context of a container's rules.
type containerScope struct {
	report      *report
	spec        *corev1.PodSpec
	hostPorts   map[string]bool // "protocol/host IP/port" of all containers so far
	hostNetwork bool
}

func validateContainers(r *report, s *corev1.PodSpec, volumes map[string]bool, spec *field.Path) {
	at := spec.Child("containers")
	if len(s.Containers) == 0 {
		r.invalid(field.ErrorList{field.Required(at, "a pod needs at least one container")})
	}
	names := map[string]bool{}
	scope := containerScope{report: r, spec: s, hostPorts: map[string]bool{}, hostNetwork: s.HostNetwork}
	for i := range s.Containers {
		r.invalid(uniqueLabel(s.Containers[i].Name, at.Index(i).Child("name"), names))
		scope.container(&s.Containers[i], volumes, at.Index(i))
	}
	at = spec.Child("initContainers")
	scope.hostNetwork = false // the API server requires equal ports only of main containers
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		r.invalid(uniqueLabel(c.Name, at.Index(i).Child("name"), names))
		// As in the API server, init containers run one by one, so they may use the same host ports.
		scope.hostPorts = map[string]bool{}
		scope.container(c, volumes, at.Index(i))
		r.invalid(validateInit(c, at.Index(i)))
	}
}

// container checks the rules for main and init containers.
func (s *containerScope) container(c *corev1.Container, volumes map[string]bool, p *field.Path) {
	errs := validateImage(c.Image, p.Child("image"))
	errs = append(errs, oneOf(c.ImagePullPolicy, p.Child("imagePullPolicy"),
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, oneOf(c.TerminationMessagePolicy, p.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, validateMessagePath(c.TerminationMessagePath, p.Child("terminationMessagePath"))...)
	errs = append(errs, s.ports(c.Ports, p.Child("ports"))...)
	errs = append(errs, validateMounts(c, volumes, p.Child("volumeMounts"))...)
	s.report.invalid(errs)
	s.env(c.Env, p.Child("env"))
	s.envFrom(c.EnvFrom, p.Child("envFrom"))
	s.resources(&c.Resources, p.Child("resources"))
	s.resizes(c, p.Child("resizePolicy"))
	s.security(c.SecurityContext, p.Child("securityContext"))
	s.restarts(c, p)
	s.probes(c, p)
	s.lifecycle(c, p)
}

func validateImage(image string, at *field.Path) field.ErrorList {
	switch {
	case image == "":
		return field.ErrorList{field.Required(at, "")}
	case strings.TrimSpace(image) != image:
		return field.ErrorList{field.Invalid(at, image, "must not begin or end with white space")}
	}
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return field.ErrorList{field.Invalid(at, image,
			"is not an image reference: [registry[:port]/]repository[:tag][@digest], the repository in lower case")}
	}
	return nil
}

func (s *containerScope) ports(ports []corev1.ContainerPort, at *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for i, port := range ports {
		p := at.Index(i)
		if port.Name != "" {
			errs = append(errs, syntax(p.Child("name"), port.Name, validation.IsValidPortName)...)
			if names[port.Name] {
				errs = append(errs, field.Duplicate(p.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			errs = append(errs, field.Required(p.Child("containerPort"), ""))
		} else {
			errs = append(errs, portNumber(p.Child("containerPort"), port.ContainerPort)...)
		}
		errs = append(errs, oneOf(port.Protocol, p.Child("protocol"),
			corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if port.HostIP != "" && !validHostIP(port.HostIP) {
			errs = append(errs, field.Invalid(p.Child("hostIP"), port.HostIP, "must be an IP address"))
		}
		if s.hostNetwork && port.HostPort == port.ContainerPort && len(portNumber(p, port.HostPort)) > 0 {
			continue // copied from an invalid containerPort, which is reported above
		}
		errs = append(errs, s.hostPort(port, p.Child("hostPort"))...)
	}
	return errs
}

func (s *containerScope) hostPort(port corev1.ContainerPort, at *field.Path) field.ErrorList {
	if port.HostPort == 0 {
		return nil
	}
	errs := portNumber(at, port.HostPort)
	if s.hostNetwork && port.HostPort != port.ContainerPort {
		errs = append(errs, field.Invalid(at, port.HostPort, "must be the containerPort when hostNetwork is true"))
	}
	key := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
	if s.hostPorts[key] {
		errs = append(errs, field.Duplicate(at, port.HostPort))
	}
	s.hostPorts[key] = true
	return errs
}

func portNumber(at *field.Path, port int32) (errs field.ErrorList) {
	for _, message := range validation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(at, port, message))
	}
	return errs
}

func (s *containerScope) resources(res *corev1.ResourceRequirements, at *field.Path) {
	s.resourceList(res.Limits, nil, at.Child("limits"))
	s.resourceList(res.Requests, res.Limits, at.Child("requests"))
	s.report.invalid(validateDevices(res, at))
	s.report.invalid(validateOvercommit(res, at))
	withinLimits(s.report, res, at)
	s.report.invalid(validateHugePageLimits(res, at))
}

// resourceList checks a list, except for values that are equal in reported: requests default to limits, and their
// problems should not be reported twice.
func (s *containerScope) resourceList(list, reported corev1.ResourceList, at *field.Path) {
	for _, resourceName := range sortedNames(list) {
		quantity := list[resourceName]
		if same, ok := reported[resourceName]; ok && same.Cmp(quantity) == 0 {
			continue
		}
		p := at.Key(string(resourceName))
		switch {
		case carriedResource(resourceName):
		case isHuge(resourceName):
			s.report.invalid(validateHugePages(resourceName, quantity, p))
		case isDevice(resourceName):
			s.report.invalid(validateDevice(resourceName, quantity, p))
		case devices.IsResource(resourceName):
			s.report.invalid(validateExtended(resourceName, quantity, p))
		default:
			s.report.invalid(field.ErrorList{field.NotSupported(p, string(resourceName),
				[]string{string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage)})})
		}
		s.report.invalid(validateQuantity(resourceName, quantity, p))
	}
}

// validateQuantity refuses an amount that is negative, or that no int64 holds: the API server takes it, and its sums
// wrap around.
func validateQuantity(resourceName corev1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	switch {
	case q.Sign() < 0:
		return field.ErrorList{field.Invalid(at, q.String(), "must be 0 or more")}
	case resources.InRange(resourceName, q):
		return nil
	case resourceName == corev1.ResourceCPU:
		return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("must be at most %dm", int64(math.MaxInt64)))}
	}
	return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("must be at most %d", int64(math.MaxInt64)))}
}

func carriedResource(resourceName corev1.ResourceName) bool {
	return resourceName == corev1.ResourceCPU || resourceName == corev1.ResourceMemory ||
		resourceName == corev1.ResourceEphemeralStorage
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for resourceName := range list {
		names = append(names, resourceName)
	}
	slices.Sort(names)
	return names
}

func (s *containerScope) security(sc *corev1.SecurityContext, at *field.Path) {
	if sc == nil {
		return
	}
	errs := validateUser(sc.RunAsUser, sc.RunAsGroup, at)
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	if sc.Capabilities != nil {
		errs = append(errs, validateCapabilities(sc.Capabilities.Add, at.Child("capabilities", "add"))...)
		errs = append(errs, validateCapabilities(sc.Capabilities.Drop, at.Child("capabilities", "drop"))...)
	}
	if sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		escalation := at.Child("allowPrivilegeEscalation")
		if sc.Privileged != nil && *sc.Privileged {
			errs = append(errs, field.Invalid(escalation, false, "a privileged container can always escalate"))
		}
		if sc.Capabilities != nil && slices.ContainsFunc(sc.Capabilities.Add, func(c corev1.Capability) bool {
			return c == "CAP_SYS_ADMIN" // only with this spelling, as in the API server
		}) {
			errs = append(errs, field.Invalid(escalation, false, "a container with CAP_SYS_ADMIN can always escalate"))
		}
	}
	if sc.ProcMount != nil {
		procMount := at.Child("procMount")
		errs = append(errs, oneOfSupported(*sc.ProcMount, procMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *sc.ProcMount == corev1.UnmaskedProcMount && hostUsers(s.spec) {
			errs = append(errs, field.Invalid(procMount, *sc.ProcMount, "needs hostUsers: false"))
		}
	}
	s.report.invalid(errs)
}

func validateCapabilities(list []corev1.Capability, at *field.Path) (errs field.ErrorList) {
	for i, c := range list {
		letters := strings.Trim(string(c), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789")
		if c == "" || letters != "" {
			errs = append(errs, field.Invalid(at.Index(i), string(c), "must be a capability's name, such as NET_ADMIN, or ALL"))
		}
	}
	return errs
}

func validateSeccomp(profile *corev1.SeccompProfile, at *field.Path) field.ErrorList {
	if profile == nil {
		return nil
	}
	errs := oneOf(profile.Type, at.Child("type"), corev1.SeccompProfileTypeLocalhost,
		corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	local := at.Child("localhostProfile")
	switch {
	case profile.Type != corev1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile != nil {
			errs = append(errs, field.Invalid(local, *profile.LocalhostProfile, "is only for type Localhost"))
		}
	case profile.LocalhostProfile == nil || *profile.LocalhostProfile == "":
		errs = append(errs, field.Required(local, "type Localhost needs it"))
	case strings.HasPrefix(*profile.LocalhostProfile, "/"):
		errs = append(errs, field.Invalid(local, *profile.LocalhostProfile, "must be relative to the seccomp directory"))
	default:
		errs = append(errs, withoutBacksteps(local, *profile.LocalhostProfile)...)
	}
	return errs
}
