package cri

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
)

// Limits of a resolver configuration, as validated by the API server and applied by the kubelet.
const (
	maxDNSServers     = 3
	maxDNSSearches    = 32
	maxDNSSearchBytes = 2048
)

// maxResolvConfBytes bounds the host's file; the kubelet reads 10 MB.
const maxResolvConfBytes = 1 << 20

// maxDNSSearchPath bounds one path: resolvers abort on a longer one.
const maxDNSSearchPath = validation.DNS1123SubdomainMaxLength

// Reasons of the kubelet's events about a pod's resolver configuration.
const (
	reasonDNSForming = "DNSConfigForming"
	reasonMissingDNS = "MissingClusterDNS"
)

// warnDNS receives what a person should know of a pod's resolver configuration: the kubelet's reason and message.
type warnDNS func(reason, message string)

// dnsConfig returns the pod's resolver configuration.
func (d *Driver) dnsConfig(pod *corev1.Pod, warn warnDNS) (*runtimeapi.DNSConfig, error) {
	host, err := d.hostDNS()
	if err != nil {
		return nil, err
	}
	return podDNS(pod, host, d.opts.Network.ClusterDNS, d.opts.Network.ClusterDomain, warn), nil
}

// warnDNS returns what passes warnings about a pod on.
func (d *Driver) warnDNS(pod *corev1.Pod) warnDNS {
	return func(reason, message string) {
		if d.opts.Warn != nil {
			d.opts.Warn(pod, reason, message)
		}
	}
}

// quiet passes nothing on.
func quiet(string, string) {}

// hostDNS reads the host's resolver file at each use, because it changes while the node runs.
func (d *Driver) hostDNS() (*runtimeapi.DNSConfig, error) {
	if d.opts.Network.ResolvConf == "" {
		return &runtimeapi.DNSConfig{}, nil
	}
	text, err := bounded.ReadFile(d.opts.Network.ResolvConf, maxResolvConfBytes)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return nil, fmt.Errorf("read the host's resolver configuration; configure another file or none: %w", err)
	}
	return parseResolvConf(bytes.NewReader(text))
}

func parseResolvConf(r io.Reader) (*runtimeapi.DNSConfig, error) {
	out := &runtimeapi.DNSConfig{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		switch values := fields[1:]; fields[0] {
		case "nameserver":
			if len(values) > 0 {
				out.Servers = append(out.Servers, values[0])
			}
		case "search":
			// The last search line wins.
			out.Searches = nil
			for _, v := range values {
				if v != "." {
					v = strings.TrimSuffix(v, ".")
				}
				out.Searches = append(out.Searches, v)
			}
		case "options":
			out.Options = append(out.Options, values...)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the host's resolver configuration: %w", err)
	}
	return out, nil
}

// podDNS applies the pod's DNS policy and its dnsConfig.
func podDNS(
	pod *corev1.Pod, host *runtimeapi.DNSConfig, clusterDNS []string, clusterDomain string, warn warnDNS,
) *runtimeapi.DNSConfig {
	out := &runtimeapi.DNSConfig{}
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst || policy == "" {
		// A pod on the host's network uses the cluster's DNS only with ClusterFirstWithHostNet (as in the kubelet).
		policy = corev1.DNSClusterFirstWithHostNet
		if pod.Spec.HostNetwork {
			policy = corev1.DNSDefault
		}
	}
	if policy == corev1.DNSClusterFirstWithHostNet && len(clusterDNS) == 0 {
		policy = corev1.DNSDefault
		warn(reasonMissingDNS, fmt.Sprintf("pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod "+
			"using %q policy. Falling back to %q policy.", pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")",
			corev1.DNSClusterFirst, corev1.DNSDefault))
	}
	switch policy {
	case corev1.DNSNone:
	case corev1.DNSClusterFirstWithHostNet:
		out.Servers = slices.Clone(clusterDNS)
		if clusterDomain != "" {
			out.Searches = []string{pod.Namespace + ".svc." + clusterDomain, "svc." + clusterDomain, clusterDomain}
		}
		out.Searches = unique(append(out.Searches, host.GetSearches()...))
		out.Options = []string{"ndots:5"}
	default:
		out.Servers = slices.Clone(host.GetServers())
		out.Searches = slices.Clone(host.GetSearches())
		out.Options = slices.Clone(host.GetOptions())
	}
	if own := pod.Spec.DNSConfig; own != nil {
		out.Servers = unique(append(out.Servers, own.Nameservers...))
		out.Searches = unique(append(out.Searches, own.Searches...))
		out.Options = mergeDNSOptions(out.Options, own.Options)
	}
	return fitDNS(out, warn)
}

// mergeDNSOptions replaces options of the same name by the pod's, and keeps the order.
func mergeDNSOptions(options []string, own []corev1.PodDNSConfigOption) []string {
	for _, o := range own {
		text := o.Name
		if o.Value != nil && *o.Value != "" {
			text += ":" + *o.Value
		}
		i := slices.IndexFunc(options, func(have string) bool {
			name, _, _ := strings.Cut(have, ":")
			return name == o.Name
		})
		if i < 0 {
			options = append(options, text)
		} else {
			options[i] = text
		}
	}
	return options
}

// fitDNS drops entries beyond the limits of resolvers.
func fitDNS(c *runtimeapi.DNSConfig, warn warnDNS) *runtimeapi.DNSConfig {
	if len(c.Servers) > maxDNSServers {
		c.Servers = c.Servers[:maxDNSServers]
		warn(reasonDNSForming, "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver "+
			"line is: "+strings.Join(c.Servers, " "))
	}
	before := len(c.Searches)
	c.Searches = slices.DeleteFunc(c.Searches[:min(before, maxDNSSearches)], func(s string) bool {
		return len(s) > maxDNSSearchPath
	})
	total := -1
	for i, s := range c.Searches {
		if total += len(s) + 1; total > maxDNSSearchBytes {
			c.Searches = c.Searches[:i]
			break
		}
	}
	if len(c.Searches) < before {
		warn(reasonDNSForming, "Search Line limits were exceeded, some search paths have been omitted, the applied search "+
			"line is: "+strings.Join(c.Searches, " "))
	}
	return c
}

func unique(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
