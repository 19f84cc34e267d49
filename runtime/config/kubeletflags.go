package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// kubeletFlags are the flags of the kubelet that the agent has no setting of its own for: flags that only set a field
// of KubeletConfiguration, by the path of that field. Their values are merged over the files as one more drop-in, so
// that each is honoured, ignored or refused as the field is.
var kubeletFlags = []struct {
	kind  func() flagKind
	flags string // name=path of the field, separated by spaces
}{
	{boolKind, `contention-profiling=enableContentionProfiling cpu-cfs-quota=cpuCFSQuota
		enable-controller-attach-detach=enableControllerAttachDetach enable-debugging-handlers=enableDebuggingHandlers
		fail-cgroupv1=failCgroupV1 fail-swap-on=failSwapOn kernel-memcg-notification=kernelMemcgNotification
		local-storage-capacity-isolation=localStorageCapacityIsolation
		log-json-split-stream=logging.options.json.splitStream log-text-split-stream=logging.options.text.splitStream
		make-iptables-util-chains=makeIPTablesUtilChains serialize-image-pulls=serializeImagePulls`},
	{numberKind, `eviction-max-pod-grace-period=evictionMaxPodGracePeriod max-open-files=maxOpenFiles
		node-status-max-images=nodeStatusMaxImages oom-score-adj=oomScoreAdj pods-per-core=podsPerCore
		registry-burst=registryBurst registry-qps=registryPullQPS`},
	{textKind, `cpu-manager-policy=cpuManagerPolicy hairpin-mode=hairpinMode kube-reserved-cgroup=kubeReservedCgroup
		kubelet-cgroups=kubeletCgroups log-json-info-buffer-size=logging.options.json.infoBufferSize
		log-text-info-buffer-size=logging.options.text.infoBufferSize logging-format=logging.format
		memory-manager-policy=memoryManagerPolicy pod-cidr=podCIDR
		system-cgroups=systemCgroups system-reserved-cgroup=systemReservedCgroup
		topology-manager-policy=topologyManagerPolicy topology-manager-scope=topologyManagerScope
		volume-plugin-dir=volumePluginDir`},
	{durationKind, `cpu-cfs-quota-period=cpuCFSQuotaPeriod cpu-manager-reconcile-period=cpuManagerReconcilePeriod
		eviction-pressure-transition-period=evictionPressureTransitionPeriod file-check-frequency=fileCheckFrequency
		log-flush-frequency=logging.flushFrequency runtime-request-timeout=runtimeRequestTimeout
		streaming-connection-idle-timeout=streamingConnectionIdleTimeout sync-frequency=syncFrequency
		volume-stats-agg-period=volumeStatsAggPeriod`},
	{listKind, `allowed-unsafe-sysctls=allowedUnsafeSysctls`},
	{mapKind("="), `cpu-manager-policy-options=cpuManagerPolicyOptions eviction-minimum-reclaim=evictionMinimumReclaim
		eviction-soft-grace-period=evictionSoftGracePeriod qos-reserved=qosReserved
		topology-manager-policy-options=topologyManagerPolicyOptions`},
	{mapKind("<"), `eviction-hard=evictionHard eviction-soft=evictionSoft`},
	{gatesKind, `feature-gates=featureGates`},
	{modulesKind, `vmodule=logging.vmodule`},
	{reservedKind, `reserved-memory=reservedMemory`},
}

// idleFlags are flags of the kubelet that set no field and nothing here, with the reason.
var idleFlags = map[string]string{
	"experimental-allocatable-ignore-eviction": "hard eviction thresholds are not allocatable to pods, ignored",
	"experimental-mounter-path":                notSupported,
	"housekeeping-interval":                    "statistics are read when somebody asks, ignored",
	"runtime-cgroups":                          notSupported,
	"pod-infra-container-image":                "the runtime's configuration names the sandbox image, ignored",
}

// flagKind is how a flag's text becomes the value of a field, as JSON decodes it. add is given the value of the flag's
// earlier occurrences, nil at the first.
type flagKind struct {
	name string
	add  func(before any, text string) (any, error)
}

func scalar(name string, parse func(string) (any, error)) flagKind {
	return flagKind{name, func(_ any, text string) (any, error) { return parse(text) }}
}

func boolKind() flagKind {
	return scalar("bool", func(text string) (any, error) { return strconv.ParseBool(text) })
}

func numberKind() flagKind {
	return scalar("int", func(text string) (any, error) { return strconv.ParseInt(text, 0, 32) })
}

func textKind() flagKind {
	return scalar("string", func(text string) (any, error) { return text, nil })
}

func durationKind() flagKind {
	return scalar("duration", func(text string) (any, error) {
		d, err := time.ParseDuration(text)
		return d.String(), err
	})
}

func listKind() flagKind {
	return flagKind{"strings", func(before any, text string) (any, error) {
		out, _ := before.([]any)
		for _, one := range elements(text) {
			out = append(out, one)
		}
		return out, nil
	}}
}

// mapKind takes pairs of a name and a value.
func mapKind(separator string) func() flagKind {
	return func() flagKind {
		return pairs(separator, func(value string) (any, error) { return value, nil })
	}
}

func gatesKind() flagKind {
	return pairs("=", func(value string) (any, error) { return strconv.ParseBool(value) })
}

func pairs(separator string, parse func(string) (any, error)) flagKind {
	return flagKind{"name" + separator + "value", func(before any, text string) (any, error) {
		out, _ := before.(map[string]any)
		out = maps.Clone(out)
		if out == nil {
			out = map[string]any{}
		}
		for _, one := range elements(text) {
			name, value, found := strings.Cut(one, separator)
			if !found {
				return nil, fmt.Errorf("found %q, want name%svalue", one, separator)
			}
			var err error
			if out[strings.TrimSpace(name)], err = parse(strings.TrimSpace(value)); err != nil {
				return nil, err
			}
		}
		return out, nil
	}}
}

func modulesKind() flagKind {
	return flagKind{"pattern=N", func(before any, text string) (any, error) {
		out, _ := before.([]any)
		for _, one := range elements(text) {
			pattern, level, _ := strings.Cut(one, "=")
			n, err := strconv.ParseUint(level, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("found %q, want pattern=N", one)
			}
			out = append(out, map[string]any{"filePattern": pattern, "verbosity": n})
		}
		return out, nil
	}}
}

// reservedKind takes NUMA-NODE:name=value,name=value;...
func reservedKind() flagKind {
	limits := pairs("=", func(value string) (any, error) { return value, nil })
	return flagKind{"node:name=value", func(before any, text string) (any, error) {
		out, _ := before.([]any)
		for one := range strings.SplitSeq(text, ";") {
			node, rest, _ := strings.Cut(one, ":")
			n, err := strconv.ParseInt(node, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("found %q, want node:name=value", one)
			}
			amounts, err := limits.add(nil, rest)
			if err != nil {
				return nil, err
			}
			out = append(out, map[string]any{"numaNode": n, "limits": amounts})
		}
		return out, nil
	}}
}

func elements(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// fieldFlag is the value of one of kubeletFlags, or of idleFlags, whose path is empty.
type fieldFlag struct {
	flagKind
	flag, path string
	text       string
	value      any // nil: the flag is not given
}

// Set adds an occurrence of the flag.
func (f *fieldFlag) Set(text string) error {
	value, err := f.add(f.value, text)
	if err != nil {
		return err
	}
	f.text, f.value = text, value
	return nil
}

// String returns the flag's last value.
func (f *fieldFlag) String() string { return f.text }

// Type returns the type of the flag's value.
func (f *fieldFlag) Type() string { return f.name }

// addKubeletFlags adds the flags of the kubelet that the agent has no setting of its own for. The help leaves them out:
// new configurations are to set the field.
func addKubeletFlags(fs *pflag.FlagSet) {
	add := func(kind flagKind, name, path string) {
		flag := fs.VarPF(&fieldFlag{flagKind: kind, flag: name, path: path}, name, "",
			"the kubelet's; sets "+path+" of --config")
		flag.Hidden = true
		if kind.name == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	for _, some := range kubeletFlags {
		for _, one := range strings.Fields(some.flags) {
			name, path, _ := strings.Cut(one, "=")
			add(some.kind(), name, path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(idleFlags)) {
		kind := textKind()
		if name == "experimental-allocatable-ignore-eviction" {
			kind = boolKind()
		}
		add(kind, name, "")
	}
}

// addFlags merges the given flags over the files; flags may be nil.
func (m *merged) addFlags(flags *pflag.FlagSet) []Problem {
	if flags == nil {
		return nil
	}
	var problems []Problem
	flags.Visit(func(given *pflag.Flag) {
		if f, is := given.Value.(*fieldFlag); is {
			problems = append(problems, m.addFlag(f)...)
		}
	})
	return problems
}

func (m *merged) addFlag(f *fieldFlag) []Problem {
	if f.path == "" {
		if f.value == false || f.value == "" {
			return nil
		}
		return []Problem{{File: "--" + f.flag, Message: idleFlags[f.flag]}}
	}
	names := strings.Split(f.path, ".")
	value := f.value
	for _, name := range slices.Backward(names[1:]) {
		value = map[string]any{name: value}
	}
	m.from[names[0]] = "--" + f.flag
	// What flags name replaces what files name, also in objects.
	if _, object := f.value.(map[string]any); object {
		delete(m.values, names[0])
	}
	patch(m.values, map[string]any{names[0]: value})
	if f.value == "0s" && fields[names[0]].apply != nil {
		return []Problem{{File: "--" + f.flag, Field: f.path, Message: "0 means the default"}}
	}
	return nil
}
