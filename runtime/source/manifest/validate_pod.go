package manifest

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"

	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/pattern"
)

// Bounds of the API server's validation, except where noted.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchBytes = 2048 // of all search domains, with one byte between them
	maxSysctlBytes = 253

	// maxPathBytes is what Linux takes as a path, without the final zero.
	maxPathBytes = 4095

	// maxGraceSeconds is 68 years. The API server has no bound, and a time.Duration overflows after 292 years.
	maxGraceSeconds = math.MaxInt32
)

var sysctlSyntax = pattern.Lazy(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// validatePod checks the API server's rules for the supported fields. The pod has its defaults.
func validatePod(r *report, pod *corev1.Pod) {
	r.invalid(validateMeta(pod))
	spec := field.NewPath("spec")
	s := &pod.Spec
	errs := oneOf(s.RestartPolicy, spec.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	errs = append(errs, validateDNS(s, spec)...)
	if grace := *s.TerminationGracePeriodSeconds; grace > maxGraceSeconds {
		errs = append(errs, field.Invalid(spec.Child("terminationGracePeriodSeconds"), grace,
			fmt.Sprintf("must be at most %d", maxGraceSeconds)))
	}
	if g := pod.DeletionGracePeriodSeconds; g != nil && (*g < 0 || *g > maxGraceSeconds) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "deletionGracePeriodSeconds"), *g,
			validation.InclusiveRangeError(0, maxGraceSeconds)))
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > math.MaxInt32) {
		errs = append(errs, field.Invalid(spec.Child("activeDeadlineSeconds"), *d,
			validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if s.Hostname != "" {
		errs = append(errs, syntax(spec.Child("hostname"), s.Hostname, validation.IsDNS1123Label)...)
	}
	if s.Subdomain != "" {
		errs = append(errs, syntax(spec.Child("subdomain"), s.Subdomain, validation.IsDNS1123Label)...)
	}
	if s.ServiceAccountName != "" {
		errs = append(errs, validateObjectName(s.ServiceAccountName, spec.Child("serviceAccountName"))...)
	}
	if s.PriorityClassName != "" {
		errs = append(errs, syntax(spec.Child("priorityClassName"), s.PriorityClassName, validation.IsDNS1123Subdomain)...)
	}
	if s.ShareProcessNamespace != nil && *s.ShareProcessNamespace && s.HostPID {
		errs = append(errs, field.Invalid(spec.Child("shareProcessNamespace"), true, "cannot be used together with hostPID"))
	}
	for i, gate := range s.ReadinessGates {
		at := spec.Child("readinessGates").Index(i).Child("conditionType")
		errs = append(errs, syntax(at, string(gate.ConditionType), validation.IsQualifiedName)...)
	}
	errs = append(errs, validateHostAliases(s.HostAliases, spec.Child("hostAliases"))...)
	errs = append(errs, validateTolerations(s.Tolerations, spec.Child("tolerations"))...)
	errs = append(errs, validateNodeChoice(s, spec)...)
	errs = append(errs, validateScheduling(s, spec)...)
	errs = append(errs, validatePodSecurity(s, spec.Child("securityContext"))...)
	errs = append(errs, validateHostUsers(s, spec)...)
	errs = append(errs, validateHostnameOverride(s, spec.Child("hostnameOverride"))...)
	errs = append(errs, validateCounts(pod, spec)...)
	errs = append(errs, validateAppArmorAnnotations(pod)...)
	errs = append(errs, validateSeccompAnnotations(pod)...)
	r.invalid(errs)
	validateOS(r, s)
	volumes := validateVolumes(r, s, spec.Child("volumes"))
	validateContainers(r, s, volumes, spec)
	validatePodResources(r, s, spec.Child("resources"))
}

func validateMeta(pod *corev1.Pod) field.ErrorList {
	meta := field.NewPath("metadata")
	if pod.Name == "" {
		// Without a name nothing was added to it, so the rules for names below would only repeat this.
		errs := field.ErrorList{field.Required(meta.Child("name"), "a pod needs a name")}
		errs = append(errs, validateLabels(pod.Labels, meta.Child("labels"))...)
		return append(errs, apivalidation.ValidateAnnotations(pod.Annotations, meta.Child("annotations"))...)
	}
	unlabeled := pod.ObjectMeta
	unlabeled.Labels = nil
	errs := apivalidation.ValidateObjectMeta(&unlabeled, true, apivalidation.NameIsDNSSubdomain, meta)
	errs = append(errs, validateLabels(pod.Labels, meta.Child("labels"))...)
	// A UID names a directory, a cgroup and the pod's actor. The API server uses UUIDs.
	if uid := string(pod.UID); uid != "" && (messages.CheckID(uid) != nil || strings.Trim(uid[:1], "-_") == "") {
		errs = append(errs, field.Invalid(meta.Child("uid"), uid, fmt.Sprintf(
			"must be 1 to %d letters, digits, '-' and '_', and begin with a letter or digit", messages.MaxIDBytes)))
	}
	guarantee, set := pod.Annotations[podactor.AnnotationStartGuarantee]
	if set && guarantee != podactor.AtMostOnce && guarantee != podactor.AtLeastOnce {
		at := meta.Child("annotations").Key(podactor.AnnotationStartGuarantee)
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"must be "+podactor.AtMostOnce+" or "+podactor.AtLeastOnce))
	}
	return errs
}

// validateLabels checks labels as the API server does, and names the key of each bad one.
func validateLabels(labels map[string]string, at *field.Path) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		errs = append(errs, metavalidation.ValidateLabelName(key, at.Key(key))...)
		errs = append(errs, syntax(at.Key(key), labels[key], validation.IsValidLabelValue)...)
	}
	return errs
}

// oneOf checks an enumeration.
func oneOf[T ~string](value T, at *field.Path, values ...T) field.ErrorList {
	switch {
	case slices.Contains(values, value):
		return nil
	case value == "":
		return field.ErrorList{field.Required(at, "")}
	}
	return field.ErrorList{field.NotSupported(at, value, values)}
}

// syntax applies one of the rules of apimachinery, which return a list of messages.
func syntax(at *field.Path, value string, rule func(string) []string) (errs field.ErrorList) {
	for _, message := range rule(value) {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

func validateDNS(s *corev1.PodSpec, spec *field.Path) field.ErrorList {
	errs := oneOf(s.DNSPolicy, spec.Child("dnsPolicy"),
		corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone)
	at := spec.Child("dnsConfig")
	if s.DNSPolicy == corev1.DNSNone && (s.DNSConfig == nil || len(s.DNSConfig.Nameservers) == 0) {
		return append(errs, field.Required(at.Child("nameservers"), "dnsPolicy None needs at least one"))
	}
	if s.DNSConfig == nil {
		return errs
	}
	if n := len(s.DNSConfig.Nameservers); n > maxNameservers {
		errs = append(errs, field.Invalid(at.Child("nameservers"), n,
			fmt.Sprintf("must not be more than %d", maxNameservers)))
	}
	for i, server := range s.DNSConfig.Nameservers {
		errs = append(errs, validation.IsValidIP(at.Child("nameservers").Index(i), server)...)
	}
	searches := at.Child("searches")
	if n := len(s.DNSConfig.Searches); n > maxSearches {
		errs = append(errs, field.Invalid(searches, n, fmt.Sprintf("must not be more than %d", maxSearches)))
	}
	if n := len(strings.Join(s.DNSConfig.Searches, " ")); n > maxSearchBytes {
		errs = append(errs, field.Invalid(searches, n,
			fmt.Sprintf("must not have more than %d characters in total", maxSearchBytes)))
	}
	for i, domain := range s.DNSConfig.Searches {
		if domain != "." {
			errs = append(errs, syntax(searches.Index(i), strings.TrimSuffix(domain, "."),
				validation.IsDNS1123SubdomainWithUnderscore)...)
		}
	}
	for i, option := range s.DNSConfig.Options {
		if option.Name == "" {
			errs = append(errs, field.Required(at.Child("options").Index(i).Child("name"), ""))
		}
	}
	return errs
}

func validateHostAliases(aliases []corev1.HostAlias, at *field.Path) (errs field.ErrorList) {
	for i, alias := range aliases {
		errs = append(errs, validation.IsValidIP(at.Index(i).Child("ip"), alias.IP)...)
		for j, name := range alias.Hostnames {
			errs = append(errs, syntax(at.Index(i).Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain)...)
		}
	}
	return errs
}

func validateTolerations(list []corev1.Toleration, at *field.Path) (errs field.ErrorList) {
	for i, t := range list {
		p := at.Index(i)
		if t.Key != "" {
			errs = append(errs, metavalidation.ValidateLabelName(t.Key, p.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(p.Child("operator"), t.Operator, "must be Exists when key is empty"))
		}
		switch t.Operator {
		case "", corev1.TolerationOpEqual:
			errs = append(errs, syntax(p.Child("operator"), t.Value, validation.IsValidLabelValue)...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Operator, "with operator Exists value must be empty"))
			}
		default:
			errs = append(errs, field.NotSupported(p.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(p.Child("effect"), t.Effect, "must be NoExecute when tolerationSeconds is set"))
		}
		if t.Effect != "" {
			errs = append(errs, oneOf(t.Effect, p.Child("effect"), corev1.TaintEffectNoSchedule,
				corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		}
	}
	return errs
}

func validatePodSecurity(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	sc := s.SecurityContext
	errs := validateUser(sc.RunAsUser, sc.RunAsGroup, at)
	for i, group := range sc.SupplementalGroups {
		for _, message := range validation.IsValidGroupID(group) {
			errs = append(errs, field.Invalid(at.Child("supplementalGroups").Index(i), group, message))
		}
	}
	if sc.FSGroup != nil {
		for _, message := range validation.IsValidGroupID(*sc.FSGroup) {
			errs = append(errs, field.Invalid(at.Child("fsGroup"), *sc.FSGroup, message))
		}
	}
	if p := sc.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOfSupported(*p, at.Child("fsGroupChangePolicy"), corev1.FSGroupChangeOnRootMismatch,
			corev1.FSGroupChangeAlways)...)
	}
	if p := sc.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOfSupported(*p, at.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge,
			corev1.SupplementalGroupsPolicyStrict)...)
	}
	if p := sc.SELinuxChangePolicy; p != nil {
		errs = append(errs, oneOfSupported(*p, at.Child("seLinuxChangePolicy"), corev1.SELinuxChangePolicyRecursive,
			corev1.SELinuxChangePolicyMountOption)...)
	}
	errs = append(errs, validateSeccomp(sc.SeccompProfile, at.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))...)
	return append(errs, validateSysctls(s, at.Child("sysctls"))...)
}

func validateUser(user, group *int64, at *field.Path) (errs field.ErrorList) {
	if user != nil {
		for _, message := range validation.IsValidUserID(*user) {
			errs = append(errs, field.Invalid(at.Child("runAsUser"), *user, message))
		}
	}
	if group != nil {
		for _, message := range validation.IsValidGroupID(*group) {
			errs = append(errs, field.Invalid(at.Child("runAsGroup"), *group, message))
		}
	}
	return errs
}

func validateSysctls(s *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, option := range s.SecurityContext.Sysctls {
		p := at.Index(i).Child("name")
		name := sysctl.NormalizeName(option.Name)
		namespace, _, _ := sysctl.GetNamespace(name)
		switch {
		case option.Name == "":
			errs = append(errs, field.Required(p, ""))
		case len(option.Name) > maxSysctlBytes || !sysctlSyntax().MatchString(option.Name):
			errs = append(errs, field.Invalid(p, option.Name,
				fmt.Sprintf("must have at most %d characters and match %s", maxSysctlBytes, sysctlSyntax())))
		case seen[name]:
			errs = append(errs, field.Duplicate(p, option.Name))
		case s.HostNetwork && namespace == sysctl.NetNamespace:
			errs = append(errs, field.Invalid(p, option.Name, "belongs to the host's network, which hostNetwork shares"))
		case s.HostIPC && namespace == sysctl.IPCNamespace:
			errs = append(errs, field.Invalid(p, option.Name, "belongs to the host's IPC, which hostIPC shares"))
		}
		seen[name] = true
	}
	return errs
}

// validHostIP also accepts the unspecified addresses, which mean all addresses of the host.
func validHostIP(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && addr.Zone() == ""
}
