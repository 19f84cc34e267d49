package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/topology"
)

// Managers are the settings for exclusive CPUs and memory (kubelet: CPU, memory and topology manager).
type Managers struct {
	// CPUPolicy: none or static. MemoryPolicy: None or Static. Empty: none.
	CPUPolicy, MemoryPolicy string
	// CPUOptions and TopologyOptions are true or false, or a number, by the kubelet's names.
	CPUOptions, TopologyOptions map[string]string
	// TopologyPolicy: none, best-effort, restricted or single-numa-node. TopologyScope: container or pod. Empty: the
	// first.
	TopologyPolicy, TopologyScope string
	// ReservedMemory is what is reserved of the memory of each NUMA node.
	ReservedMemory []kubeletconfig.MemoryReservation
}

// The values of policies and scopes.
const (
	policyNone     = "none"
	cpuStatic      = "static"
	memoryNone     = "None"
	memoryStatic   = "Static"
	scopeContainer = "container"
	scopePod       = "pod"
)

// topologyPolicies are the policies of the topology manager.
var topologyPolicies = map[string]journaletv1.TopologyPolicy{
	"": 0, policyNone: 0,
	"best-effort":      journaletv1.TopologyPolicy_TOPOLOGY_POLICY_BEST_EFFORT,
	"restricted":       journaletv1.TopologyPolicy_TOPOLOGY_POLICY_RESTRICTED,
	"single-numa-node": journaletv1.TopologyPolicy_TOPOLOGY_POLICY_SINGLE_NUMA_NODE,
}

// The options of the topology manager, and the least value of the second: more NUMA nodes than this cost the kubelet
// too much. Here the bound is exclusive.MostNodes, whatever the option says.
const (
	preferClosest     = "prefer-closest-numa-nodes"
	maxAllowableNodes = "max-allowable-numa-nodes"
	leastAllowable    = 8
)

// cpuOptions are the options of the CPU manager.
var cpuOptions = map[string]func(*journaletv1.CpuOptions) *bool{
	"full-pcpus-only":                  func(o *journaletv1.CpuOptions) *bool { return &o.FullCores },
	"distribute-cpus-across-numa":      func(o *journaletv1.CpuOptions) *bool { return &o.AcrossNuma },
	"align-by-socket":                  func(o *journaletv1.CpuOptions) *bool { return &o.BySocket },
	"distribute-cpus-across-cores":     func(o *journaletv1.CpuOptions) *bool { return &o.AcrossCores },
	"strict-cpu-reservation":           func(o *journaletv1.CpuOptions) *bool { return &o.StrictReservation },
	"prefer-align-cpus-by-uncorecache": func(o *journaletv1.CpuOptions) *bool { return &o.ByCache },
}

// contradictions are options that exclude each other.
var contradictions = [][2]string{
	{"full-pcpus-only", "distribute-cpus-across-cores"},
	{"distribute-cpus-across-numa", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"},
}

// validate returns all settings that the kubelet would refuse.
func (m *Managers) validate() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	oneOf := func(name, value string, allowed ...string) {
		if value != "" && !slices.Contains(allowed, value) {
			bad("%s: found %q, want one of %s", name, value, strings.Join(allowed, ", "))
		}
	}
	oneOf("cpuManagerPolicy (--cpu-manager-policy)", m.CPUPolicy, policyNone, cpuStatic)
	oneOf("memoryManagerPolicy (--memory-manager-policy)", m.MemoryPolicy, memoryNone, memoryStatic)
	oneOf("topologyManagerPolicy (--topology-manager-policy)", m.TopologyPolicy,
		policyNone, "best-effort", "restricted", "single-numa-node")
	oneOf("topologyManagerScope (--topology-manager-scope)", m.TopologyScope, scopeContainer, scopePod)
	if _, err := m.cpuOptions(); err != nil {
		errs = append(errs, err)
	}
	if len(m.CPUOptions) > 0 && m.CPUPolicy != cpuStatic {
		bad("cpuManagerPolicyOptions (--cpu-manager-policy-options): the policy none has no options; set cpuManagerPolicy: " +
			"static, or remove them")
	}
	if _, err := m.closest(); err != nil {
		errs = append(errs, err)
	}
	if _, err := m.reserved(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// cpuOptions returns the options of the CPU manager.
func (m *Managers) cpuOptions() (*journaletv1.CpuOptions, error) {
	const name = "cpuManagerPolicyOptions (--cpu-manager-policy-options)"
	out := new(journaletv1.CpuOptions)
	for _, option := range slices.Sorted(maps.Keys(m.CPUOptions)) {
		target, known := cpuOptions[option]
		if !known {
			return nil, fmt.Errorf("%s: there is no option %q; want some of %s", name, option,
				strings.Join(slices.Sorted(maps.Keys(cpuOptions)), ", "))
		}
		value, err := strconv.ParseBool(m.CPUOptions[option])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: found %q, want true or false", name, option, m.CPUOptions[option])
		}
		*target(out) = value
	}
	for _, pair := range contradictions {
		if *cpuOptions[pair[0]](out) && *cpuOptions[pair[1]](out) {
			return nil, fmt.Errorf("%s: %s and %s cannot be used at the same time; remove one", name, pair[0], pair[1])
		}
	}
	if out.GetBySocket() && m.TopologyPolicy == "single-numa-node" {
		return nil, fmt.Errorf("%s: align-by-socket is incompatible with topologyManagerPolicy: single-numa-node; remove one",
			name)
	}
	return out, nil
}

// closest returns the option prefer-closest-numa-nodes, and checks the other one.
func (m *Managers) closest() (bool, error) {
	const name = "topologyManagerPolicyOptions (--topology-manager-policy-options)"
	closest := false
	for _, option := range slices.Sorted(maps.Keys(m.TopologyOptions)) {
		text := m.TopologyOptions[option]
		var err error
		switch option {
		case preferClosest:
			if closest, err = strconv.ParseBool(text); err != nil {
				return false, fmt.Errorf("%s: %s: found %q, want true or false", name, option, text)
			}
		case maxAllowableNodes:
			if n, err := strconv.Atoi(text); err != nil || n < leastAllowable {
				return false, fmt.Errorf("%s: %s: found %q, want a number of at least %d", name, option, text, leastAllowable)
			}
		default:
			return false, fmt.Errorf("%s: there is no option %q; want %s or %s", name, option, preferClosest, maxAllowableNodes)
		}
	}
	return closest, nil
}

// reserved returns the memory that is reserved in NUMA nodes.
func (m *Managers) reserved() ([]*journaletv1.NumaMemory, error) {
	const name = "reservedMemory (--reserved-memory)"
	type key struct {
		node int32
		page int64
	}
	seen := map[key]bool{}
	var out []*journaletv1.NumaMemory
	for _, r := range m.ReservedMemory {
		for _, kind := range slices.Sorted(maps.Keys(r.Limits)) {
			q := r.Limits[kind]
			k := key{r.NumaNode, resources.PageBytes(kind)}
			switch {
			case r.NumaNode < 0:
				return nil, fmt.Errorf("%s: there is no NUMA node %d", name, r.NumaNode)
			case kind != corev1.ResourceMemory && k.page == 0:
				return nil, fmt.Errorf("%s: the limit type %q for NUMA node %d is not supported, only memory and "+
					"hugepages-<size> are", name, kind, r.NumaNode)
			case q.Sign() <= 0:
				return nil, fmt.Errorf("%s: reserved memory may not be zero for NUMA node %d and resource %q", name,
					r.NumaNode, kind)
			case seen[k]:
				return nil, fmt.Errorf("%s: it has a duplicate value for NUMA node %d and resource %q", name,
					r.NumaNode, kind)
			}
			seen[k] = true
			out = append(out, &journaletv1.NumaMemory{
				Node: uint32(r.NumaNode), PageBytes: k.page, Bytes: resources.Bytes(&q),
			})
		}
	}
	return out, nil
}

// on reports whether anything is given exclusively, or aligned.
func (m *Managers) on() bool {
	return m.CPUPolicy == cpuStatic || m.MemoryPolicy == memoryStatic || topologyPolicies[m.TopologyPolicy] != 0
}

// inEffect sets the policies and what belongs to them.
func (m *Managers) inEffect(k *kubeletConfig) {
	k.CPUManagerPolicy = cmp.Or(m.CPUPolicy, k.CPUManagerPolicy)
	k.MemoryManagerPolicy = cmp.Or(m.MemoryPolicy, k.MemoryManagerPolicy)
	k.TopologyManagerPolicy = cmp.Or(m.TopologyPolicy, k.TopologyManagerPolicy)
	k.TopologyManagerScope = cmp.Or(m.TopologyScope, k.TopologyManagerScope)
	k.CPUManagerPolicyOptions, k.TopologyManagerPolicyOptions = m.CPUOptions, m.TopologyOptions
	k.ReservedMemory = m.ReservedMemory
}

// managers returns the settings for the deciders, with the machine that they are for; nil if nothing is given to
// containers alone. It fails as a kubelet's start does: without reserved CPUs, or if the memory reserved in NUMA nodes
// is not the memory reserved of the node.
func (c *Config) managers(root string, has, allocatable Capacity) (*journaletv1.ResourceManagers, error) {
	m := &c.Managers
	if !m.on() {
		return nil, nil //nolint:nilnil // nothing is given out
	}
	machine, err := topology.Read(root)
	if err != nil {
		return nil, fmt.Errorf("read the machine's topology, which cpuManagerPolicy, memoryManagerPolicy and "+
			"topologyManagerPolicy need: %w", err)
	}
	out := &journaletv1.ResourceManagers{
		Topology: machine, StaticCpus: m.CPUPolicy == cpuStatic, StaticMemory: m.MemoryPolicy == memoryStatic,
		TopologyPolicy: topologyPolicies[m.TopologyPolicy], PodScope: m.TopologyScope == scopePod,
	}
	if out.CpuOptions, err = m.cpuOptions(); err != nil {
		return nil, err
	}
	if out.PreferClosest, err = m.closest(); err != nil {
		return nil, err
	}
	if out.StaticCpus {
		if err := c.reserveCPUs(out, has.MilliCPU-allocatable.MilliCPU); err != nil {
			return nil, err
		}
	}
	if out.StaticMemory {
		if out.ReservedMemory, err = m.reserved(); err != nil {
			return nil, err
		}
		if err := checkReserved(out, has.MemoryBytes-allocatable.MemoryBytes); err != nil {
			return nil, err
		}
	}
	if err := exclusive.Check(out); err != nil {
		return nil, err
	}
	return out, nil
}

// reserveCPUs sets the CPUs that nobody gets exclusively: reservedSystemCPUs, else as many as are reserved.
func (c *Config) reserveCPUs(out *journaletv1.ResourceManagers, milli int64) error {
	if c.ReservedSystemCPUs != "" {
		set, err := c.parseReservedCPUs()
		out.ReservedCpus = set.String()
		return err
	}
	if milli <= 0 {
		return errors.New("cpuManagerPolicy: static requires that some CPU is reserved, for all that runs on shared CPUs; " +
			"set reservedSystemCPUs, or cpu in systemReserved or kubeReserved")
	}
	set, err := exclusive.Reserved(out.GetTopology(), out.GetCpuOptions(), int((milli+999)/1000))
	if err != nil {
		return fmt.Errorf("cpuManagerPolicy: static cannot reserve %dm of CPU: %w", milli, err)
	}
	out.ReservedCpus = set.String()
	return nil
}

// checkReserved compares the memory that is reserved in NUMA nodes with the memory reserved of the node: system, kube
// and the hard eviction threshold.
func checkReserved(m *journaletv1.ResourceManagers, ofNode int64) error {
	sums := map[int64]int64{}
	for _, r := range m.GetReservedMemory() {
		if !slices.ContainsFunc(m.GetTopology().GetNodes(), func(n *journaletv1.NumaNode) bool {
			return n.GetId() == r.GetNode()
		}) {
			return fmt.Errorf("reservedMemory (--reserved-memory): it references a NUMA node %d that does not exist on this "+
				"machine", r.GetNode())
		}
		sums[r.GetPageBytes()] += r.GetBytes()
	}
	for _, page := range slices.Sorted(maps.Keys(sums)) {
		if page != 0 {
			return fmt.Errorf("reservedMemory (--reserved-memory): %d bytes of %s are reserved, and the node reserves none; "+
				"remove them", sums[page], resources.HugePagesName(page))
		}
	}
	if sums[0] != ofNode {
		return fmt.Errorf("reservedMemory (--reserved-memory): the total amount %q of type %q is not equal to the value %q, "+
			"the sum of systemReserved, kubeReserved and evictionHard; change one of them", quantity(sums[0]), "memory",
			quantity(ofNode))
	}
	if sums[0] == 0 {
		return errors.New("memoryManagerPolicy: Static requires reserved memory; set reservedMemory")
	}
	return nil
}

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
