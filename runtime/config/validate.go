package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/image/credentials"
)

// Bounds of what may be set.
const (
	// maxConcurrency bounds the calls under way and the pulls at once: more would only queue in the runtime.
	maxConcurrency = 1000
	// minFileCheck keeps the periodic read from becoming a busy loop.
	minFileCheck = 100 * time.Millisecond
	// minHTTPCheck and maxHTTPCheck bound the load on the manifest server.
	minHTTPCheck = time.Second
	maxHTTPCheck = 24 * time.Hour
	// minRequestTimeout is less than what starting a sandbox takes on any machine.
	minRequestTimeout = time.Second
	// minRestartPeriod and maxRestartPeriod are the API's bounds of crashLoopBackOff.maxContainerRestartPeriod.
	minRestartPeriod = time.Second
	maxRestartPeriod = 300 * time.Second
	// maxNameservers is the number of servers that a resolver uses and the kubelet passes.
	maxNameservers = 3
	maxVerbosity   = 10
	// minRetentionAge is the interval of retention checks.
	minRetentionAge = time.Hour
	// minRetentionBytes is twice the size that retention always keeps.
	minRetentionBytes = 2 * bus.MinKept
	maxPort           = 65535
	// defaultFlush is the API's default of logging.flushFrequency.
	defaultFlush = 5 * time.Second
)

// Validate returns all values that are out of bounds or contradictory, joined. It does not read the machine.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	within := func(name string, v, low, high int64) {
		if v < low || v > high {
			bad("%s: %d is not within %d and %d", name, v, low, high)
		}
	}
	inRange := func(name string, v, low, high time.Duration) {
		if v < low || v > high {
			bad("%s: %v is not within %v and %v", name, v, low, high)
		}
	}
	for name, path := range map[string]string{
		"--root-dir": c.RootDir, "--static-pod-path": c.StaticPodPath,
		"--pod-log-dir": c.PodLogDir, "--container-log-dir": c.ContainerLogDir,
	} {
		if path == "" || path == "/" {
			bad("%s: found %q, want an absolute path other than /", name, path)
		}
	}
	within("maxPods (--max-pods)", int64(c.MaxPods), 0, 1<<31-1)
	within("registryPullQPS", int64(c.RegistryPullQPS), 0, 1<<31-1)
	within("registryBurst", int64(c.RegistryBurst), 0, 1<<31-1)
	within("maxParallelImagePulls", int64(c.MaxParallelImagePulls), 1, maxConcurrency)
	within("--cri-concurrency", int64(c.CRIConcurrency), 1, maxConcurrency)
	within("healthzPort (--healthz-port)", int64(c.HealthzPort), 0, maxPort)
	within("logging.verbosity (--v)", int64(c.Verbosity), 0, maxVerbosity)
	inRange("fileCheckFrequency", c.FileCheckFrequency, minFileCheck, 24*time.Hour)
	inRange("runtimeRequestTimeout", c.RuntimeRequestTimeout, minRequestTimeout, time.Hour)
	inRange("crashLoopBackOff.maxContainerRestartPeriod", c.MaxContainerRestartPeriod, minRestartPeriod, maxRestartPeriod)
	if c.VolumeStatsAggPeriod >= 0 { // negative: volumes are not measured
		inRange("volumeStatsAggPeriod", c.VolumeStatsAggPeriod, time.Second, 24*time.Hour)
	}
	if c.OnceTimeout < 0 || c.OnceTimeout > 0 && !c.Once {
		bad("--once-timeout: %v, want more than 0, and --once with it", c.OnceTimeout)
	}
	if c.LogFormat != LogText && c.LogFormat != LogJSON {
		bad("logging.format (--log-format): found %q, want %s or %s", c.LogFormat, LogText, LogJSON)
	}
	if c.SandboxSeccompProfile != SandboxSeccompMinimal && c.SandboxSeccompProfile != SandboxSeccompRuntimeDefault {
		bad("--sandbox-seccomp-profile: found %q, want %s or %s",
			c.SandboxSeccompProfile, SandboxSeccompMinimal, SandboxSeccompRuntimeDefault)
	}
	if _, err := bus.ParseSync(c.JournalSync); err != nil {
		bad("--journal-sync: %w", err)
	}
	if err := c.validateTracing(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Retention(); err != nil {
		errs = append(errs, err)
	}
	if c.SwapBehavior != SwapNone && c.SwapBehavior != SwapLimited {
		bad("memorySwap.swapBehavior: found %q, want %s or %s", c.SwapBehavior, SwapNone, SwapLimited)
	}
	errs = append(errs, c.ImageGC.validate()...)
	errs = append(errs, c.Shutdown.validate()...)
	errs = append(errs, c.ContainerLogs.validate()...)
	if _, err := credentials.NewPolicy(c.ImagePullVerification, c.PreloadedImages); err != nil {
		errs = append(errs, err)
	}
	errs = append(append(errs, c.validateUserNamespaces()...), c.validatePodCIDR()...)
	errs = append(errs, c.validateTokenFiles()...)
	errs = append(errs, c.validateCgroups()...)
	errs = append(errs, c.validateNetwork()...)
	errs = append(errs, c.validateURL()...)
	errs = append(errs, c.validateNode()...)
	errs = append(errs, c.validateCluster()...)
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (c *Config) validateTokenFiles() (errs []error) {
	for _, account := range slices.Sorted(maps.Keys(c.ServiceAccountTokenFiles)) {
		namespace, name, _ := strings.Cut(account, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 ||
			c.ServiceAccountTokenFiles[account] == "" {
			errs = append(errs, fmt.Errorf("--service-account-token-file: found %q, want NAMESPACE/NAME=PATH, such as "+
				"default/robot=/etc/journalet/robot.token", account+"="+c.ServiceAccountTokenFiles[account]))
		}
	}
	return errs
}

func (c *Config) validateCgroups() []error {
	var errs []error
	if c.CgroupDriver != cgroup.Cgroupfs && c.CgroupDriver != cgroup.Systemd {
		errs = append(errs, fmt.Errorf("cgroupDriver (--cgroup-driver): found %q, want %s or %s",
			c.CgroupDriver, cgroup.Cgroupfs, cgroup.Systemd))
	}
	if c.PodPidsLimit > 0 && !c.CgroupsPerQOS {
		errs = append(errs, errors.New("podPidsLimit (--pod-max-pids): needs pod cgroups; add --cgroups-per-qos"))
	}
	return append(errs, c.validateReserved()...)
}

// validatePodCIDR wants what the runtime can be given, or nothing.
func (c *Config) validatePodCIDR() []error {
	if c.PodCIDR == "" {
		return nil
	}
	if _, err := node.PodCIDR(strings.Split(c.PodCIDR, ",")); err != nil {
		return []error{fmt.Errorf("podCIDR (--pod-cidr): %w", err)}
	}
	return nil
}

// Retention returns the bounds of the journal. An error names the flag that is out of bounds.
func (c *Config) Retention() (bus.Retention, error) {
	if c.JournalRetentionAge != 0 && c.JournalRetentionAge < minRetentionAge {
		return bus.Retention{}, fmt.Errorf("--journal-retention-age: %v is less than %v; 0 means no bound",
			c.JournalRetentionAge, minRetentionAge)
	}
	q, err := resource.ParseQuantity(c.JournalRetentionBytes)
	if err != nil {
		return bus.Retention{}, fmt.Errorf("--journal-retention-bytes: %q is not a quantity such as %s; 0 means no bound",
			c.JournalRetentionBytes, DefaultJournalBytes)
	}
	if n := resources.Bytes(&q); n != 0 && n < minRetentionBytes {
		return bus.Retention{}, fmt.Errorf("--journal-retention-bytes: %s is less than %d bytes; 0 means no bound",
			c.JournalRetentionBytes, minRetentionBytes)
	}
	return bus.Retention{Age: c.JournalRetentionAge, Bytes: uint64(resources.Bytes(&q))}, nil
}

func (c *Config) validateNetwork() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch scheme, rest, ok := strings.Cut(c.ContainerRuntimeEndpoint, "://"); {
	case ok && scheme == "sim":
	case ok && scheme == "unix" && strings.HasPrefix(rest, "/"):
	default:
		bad("containerRuntimeEndpoint (--container-runtime-endpoint): found %q, want unix:///<path of the socket> or sim://",
			c.ContainerRuntimeEndpoint)
	}
	if c.ImageServiceEndpoint != "" && c.ImageServiceEndpoint != c.ContainerRuntimeEndpoint {
		bad("imageServiceEndpoint: %q differs from the runtime's %q, which cannot run images of another service; remove it",
			c.ImageServiceEndpoint, c.ContainerRuntimeEndpoint)
	}
	if _, err := netip.ParseAddr(c.HealthzBindAddress); err != nil {
		bad("healthzBindAddress (--healthz-bind-address): %q is not an IP address", c.HealthzBindAddress)
	}
	if c.BusListen != "" {
		if err := bus.CheckListen(c.BusListen, c.BusTLSCertFile, c.BusTLSPrivateKeyFile); err != nil {
			bad("--bus-listen: %w", err)
		}
	} else if c.BusTLSCertFile != "" || c.BusTLSPrivateKeyFile != "" {
		bad("--bus-tls-cert-file and --bus-tls-private-key-file need --bus-listen")
	}
	if len(c.ClusterDNS) > maxNameservers {
		bad("clusterDNS (--cluster-dns): %d servers, at most %d", len(c.ClusterDNS), maxNameservers)
	}
	for _, s := range c.ClusterDNS {
		if _, err := netip.ParseAddr(s); err != nil {
			bad("clusterDNS (--cluster-dns): %q is not an IP address", s)
		}
	}
	if d := strings.TrimSuffix(c.ClusterDomain, "."); d != "" {
		if why := validation.IsDNS1123Subdomain(d); len(why) > 0 {
			bad("clusterDomain (--cluster-domain): %q: %s", c.ClusterDomain, why[0])
		}
	}
	return errs
}

func (c *Config) validateNode() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.HostnameOverride != "" {
		if why := validation.IsDNS1123Subdomain(strings.ToLower(c.HostnameOverride)); len(why) > 0 {
			bad("--hostname-override: %q: %s", c.HostnameOverride, why[0])
		}
	}
	if _, err := parseNodeIPs(c.NodeIP); err != nil {
		errs = append(errs, err)
	}
	for _, k := range slices.Sorted(maps.Keys(c.NodeLabels)) {
		if why := validation.IsQualifiedName(k); len(why) > 0 {
			bad("--node-labels: key %q: %s", k, why[0])
		}
		if why := validation.IsValidLabelValue(c.NodeLabels[k]); len(why) > 0 {
			bad("--node-labels: value %q of %s: %s", c.NodeLabels[k], k, why[0])
		}
	}
	for name, reserved := range map[string]map[string]string{
		"systemReserved (--system-reserved)": c.SystemReserved, "kubeReserved (--kube-reserved)": c.KubeReserved,
	} {
		for _, r := range slices.Sorted(maps.Keys(reserved)) {
			if r != "cpu" && r != "memory" && r != "ephemeral-storage" && r != "pid" {
				bad("%s: cannot reserve %q; want cpu, memory, ephemeral-storage or pid", name, r)
			}
			if q, err := resource.ParseQuantity(reserved[r]); err != nil || q.Sign() < 0 {
				bad("%s: %s: found %q, want a quantity such as 200m or 500Mi", name, r, reserved[r])
			}
		}
	}
	if c.SystemLogQuery && c.NoSystemLogs {
		bad("enableSystemLogQuery: it is true, and enableSystemLogHandler false; set both to true, or neither")
	}
	if c.ReservedSystemCPUs != "" {
		if _, err := c.parseReservedCPUs(); err != nil {
			errs = append(errs, err)
		}
	}
	return slices.Concat(errs, c.Eviction.validate(), c.Managers.validate(), c.validateSysctls(), c.validateCPU(),
		c.validateLock())
}

// parseNodeIPs parses one address, or one of each family. A single one may be 0.0.0.0 or ::, which name a family.
func parseNodeIPs(s string) ([]netip.Addr, error) {
	if s == "" {
		return nil, nil
	}
	var out []netip.Addr
	for _, text := range strings.Split(s, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil || a.IsMulticast() || a.Unmap().IsLoopback() || a.Zone() != "" {
			return nil, fmt.Errorf("--node-ip: %q is not an address that others can reach", text)
		}
		out = append(out, a.Unmap())
	}
	if len(out) > 1 && slices.ContainsFunc(out, netip.Addr.IsUnspecified) {
		return nil, fmt.Errorf("--node-ip: found %q; 0.0.0.0 and :: name the family of an address that is to be found, "+
			"which only one can be: pass one of them alone, or two addresses", s)
	}
	if len(out) > 2 || len(out) == 2 && out[0].Is4() == out[1].Is4() {
		return nil, fmt.Errorf("--node-ip: found %q, want one address, or one IPv4 and one IPv6 address", s)
	}
	return out, nil
}
