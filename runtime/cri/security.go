package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/apparmor"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Paths that a container must not see or must not write, unless it has procMount Unmasked. For a privileged container
// runtimes ignore them. These are the kubelet's lists.
var (
	defaultMaskedPaths = sync.OnceValue(func() []string { return maskedPaths("/") })
	maskedOnEveryHost  = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	defaultReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// maskedPaths returns the paths that a container on a host must not see, with the file system of the host at root. The
// counters of thermal events reveal what other processes do; each CPU that has them has a directory of its own.
func maskedPaths(root string) []string {
	const cpus = "/sys/devices/system/cpu"
	var numbers []int
	for e, err := range bounded.Entries(filepath.Join(root, cpus)) {
		if err != nil {
			break // there is no /sys, or no CPU in it
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "cpu")); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	all := slices.Clone(maskedOnEveryHost)
	for _, n := range numbers {
		path := filepath.Join(cpus, fmt.Sprintf("cpu%d", n), "thermal_throttle")
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			all = append(all, path)
		}
	}
	return all
}

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}

// joinTarget has a container join the process namespace of another one, unless all of the pod share one.
func joinTarget(n *runtimeapi.NamespaceOption, target string) {
	if target != "" && n.GetPid() == runtimeapi.NamespaceMode_CONTAINER {
		n.Pid, n.TargetId = runtimeapi.NamespaceMode_TARGET, target
	}
}

// namespaces returns which namespaces a pod's containers share with the host and with each other.
func namespaces(pod *corev1.Pod, users *runtimeapi.UserNamespace) *runtimeapi.NamespaceOption {
	mode := func(host bool, otherwise runtimeapi.NamespaceMode) runtimeapi.NamespaceMode {
		if host {
			return runtimeapi.NamespaceMode_NODE
		}
		return otherwise
	}
	pid := runtimeapi.NamespaceMode_CONTAINER
	if pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace {
		pid = runtimeapi.NamespaceMode_POD
	}
	return &runtimeapi.NamespaceOption{
		Network: mode(pod.Spec.HostNetwork, runtimeapi.NamespaceMode_POD),
		Ipc:     mode(pod.Spec.HostIPC, runtimeapi.NamespaceMode_POD),
		Pid:     mode(pod.Spec.HostPID, pid),

		UsernsOptions: users,
	}
}

func anyPrivileged(pod *corev1.Pod) bool {
	for c := range containers.All(pod) {
		if isPrivileged(c) {
			return true
		}
	}
	return false
}

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

func supplementalGroups(psc *corev1.PodSecurityContext) ([]int64, runtimeapi.SupplementalGroupsPolicy, error) {
	if psc == nil {
		return nil, runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	var groups []int64
	if psc.FSGroup != nil {
		groups = append(groups, *psc.FSGroup)
	}
	groups = append(groups, psc.SupplementalGroups...)
	policy := corev1.SupplementalGroupsPolicyMerge
	if psc.SupplementalGroupsPolicy != nil {
		policy = *psc.SupplementalGroupsPolicy
	}
	switch policy {
	case corev1.SupplementalGroupsPolicyMerge:
		return groups, runtimeapi.SupplementalGroupsPolicy_Merge, nil
	case corev1.SupplementalGroupsPolicyStrict:
		return groups, runtimeapi.SupplementalGroupsPolicy_Strict, nil
	}
	return nil, 0, fmt.Errorf("supplementalGroupsPolicy %q is unknown; use Merge or Strict", policy)
}

// effectiveSecurity returns a container's security context, with the pod's values where it has none.
func effectiveSecurity(pod *corev1.Pod, container *corev1.Container) corev1.SecurityContext {
	out := corev1.SecurityContext{}
	if container.SecurityContext != nil {
		out = *container.SecurityContext
	}
	out.SeccompProfile = manifest.SeccompProfile(pod, container)
	psc := pod.Spec.SecurityContext
	if psc == nil {
		return out
	}
	if out.RunAsUser == nil {
		out.RunAsUser = psc.RunAsUser
	}
	if out.RunAsGroup == nil {
		out.RunAsGroup = psc.RunAsGroup
	}
	if out.RunAsNonRoot == nil {
		out.RunAsNonRoot = psc.RunAsNonRoot
	}
	if out.SELinuxOptions == nil {
		out.SELinuxOptions = psc.SELinuxOptions
	}
	return out
}

// verifyNonRoot fails for a container with runAsNonRoot that would run as root. The messages are the kubelet's, which
// people search for.
func verifyNonRoot(in containerInput) error {
	sc := effectiveSecurity(in.pod, in.container)
	if sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot {
		return nil
	}
	where := fmt.Sprintf("(pod: %q, container: %s)", fullName(in.pod), in.container.Name)
	if sc.RunAsUser != nil {
		if *sc.RunAsUser == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
		}
		return nil
	}
	switch {
	case in.image.uid != nil && *in.image.uid == 0, in.image.uid == nil && in.image.username == "":
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	case in.image.uid == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s",
			in.image.username, where)
	}
	return nil
}

// containerSecurity returns a container's security context for CRI.
func (d *Driver) containerSecurity(in containerInput) (*runtimeapi.LinuxContainerSecurityContext, error) {
	sc := effectiveSecurity(in.pod, in.container)
	users, err := userNamespace(in.pod, in.ids)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Privileged:       isPrivileged(in.container),
		NamespaceOptions: namespaces(in.pod, users),
		SelinuxOptions:   selinuxOptions(sc.SELinuxOptions),
		RunAsUser:        int64Value(sc.RunAsUser),
		RunAsGroup:       int64Value(sc.RunAsGroup),
		ReadonlyRootfs:   sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem,
		NoNewPrivs:       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
	}
	joinTarget(out.NamespaceOptions, in.target)
	if out.RunAsUser == nil {
		// CRI requires a user beside a group, and some runtimes do not read the image's.
		out.RunAsUser, out.RunAsUsername = int64Value(in.image.uid), in.image.username
		if in.image.uid == nil && in.image.username == "" {
			out.RunAsUser = int64Value(new(int64))
		}
	}
	if out.RunAsUser != nil {
		out.RunAsUsername = ""
	}
	if c := sc.Capabilities; c != nil {
		out.Capabilities = &runtimeapi.Capability{}
		for _, v := range c.Add {
			out.Capabilities.AddCapabilities = append(out.Capabilities.AddCapabilities, string(v))
		}
		for _, v := range c.Drop {
			out.Capabilities.DropCapabilities = append(out.Capabilities.DropCapabilities, string(v))
		}
	}
	unmasked := sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount
	if !unmasked {
		out.MaskedPaths, out.ReadonlyPaths = defaultMaskedPaths(), defaultReadonlyPaths
	}
	if out.Seccomp, err = d.seccomp(sc.SeccompProfile); err != nil {
		return nil, err
	}
	if err = confine(out, apparmor.Profile(in.pod, in.container)); err != nil {
		return nil, err
	}
	out.SupplementalGroups, out.SupplementalGroupsPolicy, err = supplementalGroups(in.pod.Spec.SecurityContext)
	return out, err
}

// confine sets a container's AppArmor profile, also in the field that older runtimes read. Without a profile the
// runtime chooses: its default profile, if AppArmor is enabled.
func confine(out *runtimeapi.LinuxContainerSecurityContext, profile *corev1.AppArmorProfile) error {
	if profile == nil {
		return nil
	}
	out.Apparmor = &runtimeapi.SecurityProfile{}
	switch profile.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		out.Apparmor.ProfileType = runtimeapi.SecurityProfile_RuntimeDefault
	case corev1.AppArmorProfileTypeUnconfined:
		out.Apparmor.ProfileType = runtimeapi.SecurityProfile_Unconfined
	case corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile == "" {
			return errors.New("localhostProfile must be set if appArmorProfile type is Localhost")
		}
		out.Apparmor.ProfileType, out.Apparmor.LocalhostRef = runtimeapi.SecurityProfile_Localhost, *profile.LocalhostProfile
	default:
		return fmt.Errorf("appArmorProfile type %q is unknown; use RuntimeDefault, Unconfined or Localhost", profile.Type)
	}
	out.ApparmorProfile = apparmor.Annotation(profile) //nolint:staticcheck // what runtimes before CRI 0.22 read
	return nil
}

func (d *Driver) seccomp(p *corev1.SeccompProfile) (*runtimeapi.SecurityProfile, error) {
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	runtimeDefault := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	if p == nil {
		if d.opts.Security.SeccompDefault {
			return runtimeDefault, nil
		}
		return unconfined, nil
	}
	switch p.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return runtimeDefault, nil
	case corev1.SeccompProfileTypeUnconfined:
		return unconfined, nil
	case corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, fmt.Errorf("localhostProfile must be set if seccompProfile type is Localhost")
		}
		if !filepath.IsLocal(*p.LocalhostProfile) {
			return nil, fmt.Errorf("localhostProfile %q leads out of the directory of profiles", *p.LocalhostProfile)
		}
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(d.opts.Security.SeccompRoot, *p.LocalhostProfile),
		}, nil
	}
	return nil, fmt.Errorf("seccompProfile type %q is unknown; use RuntimeDefault, Unconfined or Localhost", p.Type)
}
