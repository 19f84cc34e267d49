package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pattern"
)

const (
	// maxSysctls bounds allowedUnsafeSysctls, which is recorded with each start; a pattern is for many.
	maxSysctls = 256
	// maxSysctlBytes bounds one name or pattern, as in the API.
	maxSysctlBytes = 253
)

// sysctlPattern is the form of a name, or of a pattern that ends in *, with dots or slashes, as in
// the API (pkg/apis/policy/validation).
var sysctlPattern = pattern.Lazy(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

// validateSysctls returns an error for each sysctl that no pod can have for itself: the kubelet refuses them, too
// (pkg/kubelet/sysctl: NewAllowlist).
func (c *Config) validateSysctls() (errs []error) {
	const field = "allowedUnsafeSysctls (--allowed-unsafe-sysctls)"
	if n := len(c.AllowedUnsafeSysctls); n > maxSysctls {
		return []error{fmt.Errorf("%s: %d sysctls, at most %d; use patterns such as net.core.*", field, n, maxSysctls)}
	}
	for _, s := range c.AllowedUnsafeSysctls {
		if len(s) > maxSysctlBytes || !sysctlPattern().MatchString(s) {
			errs = append(errs, fmt.Errorf("%s: found %q, want the name of a sysctl, or a pattern such as net.core.*, of at "+
				"most %d characters", field, s, maxSysctlBytes))
			continue
		}
		if in, name, _ := sysctl.GetNamespace(s); in == sysctl.UnknownNamespace {
			errs = append(errs, fmt.Errorf("%s: %q is not in a namespace of its own, so a pod would set it for the whole "+
				"node: set it on the node, and remove it here", field, name))
		}
	}
	return errs
}

// kernelVersion reads the version of the running kernel; nil if it has no form that is known.
func kernelVersion(root string) *journaletv1.KernelVersion {
	release, err := bounded.ReadFile(filepath.Join(root, "proc/sys/kernel/osrelease"), maxKernelFile)
	if err != nil {
		return nil
	}
	v, err := version.ParseGeneric(strings.TrimSpace(string(release)))
	if err != nil {
		return nil
	}
	return &journaletv1.KernelVersion{Major: uint32(v.Major()), Minor: uint32(v.Minor())}
}
