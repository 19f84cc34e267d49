package cri

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Bounds of host names: a DNS label, and the kernel's __NEW_UTS_LEN for a fully qualified name.
const (
	maxHostnameBytes = 63
	maxFQDNBytes     = 64
)

// sandboxConfig returns the sandbox configuration that the kubelet (1.37) would send. ids are the ids of the pod's user
// namespace; nil: the node's. An empty intent omits the annotation, for the copy in CreateContainer.
func (d *Driver) sandboxConfig(
	pod *corev1.Pod, ids *journaletv1.UserNamespace, attempt uint32, intent, logDir string,
) (*runtimeapi.PodSandboxConfig, error) {
	warn := quiet
	if intent != "" {
		warn = d.warnDNS(pod)
	}
	dns, err := d.dnsConfig(pod, warn)
	if err != nil {
		return nil, err
	}
	hostname := ""
	if !pod.Spec.HostNetwork {
		// A pod on the host's network has the host's name, whatever its manifest says.
		if hostname, err = d.sandboxHostname(pod); err != nil {
			return nil, err
		}
	}
	linux, err := d.linuxSandboxConfig(pod, ids)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		Hostname: hostname, LogDirectory: logDir, DnsConfig: dns,
		PortMappings: portMappings(pod),
		Labels:       sandboxLabels(pod),
		Annotations:  d.sandboxAnnotations(pod, intent),
		Linux:        linux,
	}, nil
}

func sandboxLabels(pod *corev1.Pod) map[string]string {
	labels := maps.Clone(pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelPodName], labels[LabelPodNamespace], labels[LabelPodUID] = pod.Name, pod.Namespace, string(pod.UID)
	return labels
}

func (d *Driver) sandboxAnnotations(pod *corev1.Pod, intent string) map[string]string {
	a := maps.Clone(pod.Annotations)
	if a == nil {
		a = map[string]string{}
	}
	a[AnnotationAgent] = d.opts.Owner.AgentID
	delete(a, AnnotationIntent)
	if intent != "" {
		a[AnnotationIntent] = intent
	}
	return a
}

// portMappings lists all ports, also those without a host port: as with the kubelet's, the runtime ignores these. A
// port that a container lists twice without a name counts once.
func portMappings(pod *corev1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	add := func(c *corev1.Container) {
		seen := map[corev1.ContainerPort]bool{}
		for _, p := range c.Ports {
			if seen[p] && p.Name == "" {
				continue
			}
			seen[p] = true
			protocol := runtimeapi.Protocol_TCP
			switch p.Protocol {
			case corev1.ProtocolUDP:
				protocol = runtimeapi.Protocol_UDP
			case corev1.ProtocolSCTP:
				protocol = runtimeapi.Protocol_SCTP
			}
			out = append(out, &runtimeapi.PortMapping{
				Protocol: protocol, ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			add(&pod.Spec.InitContainers[i])
		}
	}
	return out
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// podHostname returns the pod's host name, and its domain if it has one.
func podHostname(pod *corev1.Pod, clusterDomain string) (hostname, domain string) {
	if pod.Spec.HostnameOverride != nil {
		return *pod.Spec.HostnameOverride, ""
	}
	hostname = pod.Name
	if pod.Spec.Hostname != "" {
		hostname = pod.Spec.Hostname
	}
	if len(hostname) > maxHostnameBytes {
		hostname = strings.TrimRight(hostname[:maxHostnameBytes], "-.")
	}
	if pod.Spec.Subdomain != "" {
		domain = pod.Spec.Subdomain + "." + pod.Namespace + ".svc"
		if clusterDomain != "" {
			domain += "." + clusterDomain
		}
	}
	return hostname, domain
}

func (d *Driver) sandboxHostname(pod *corev1.Pod) (string, error) {
	hostname, domain := podHostname(pod, d.opts.Network.ClusterDomain)
	if domain == "" || pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN {
		return hostname, nil
	}
	fqdn := hostname + "." + domain
	if len(fqdn) > maxFQDNBytes {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d "+
			"characters is the max, %d characters requested); shorten hostname or subdomain", fqdn, maxFQDNBytes, len(fqdn))
	}
	return fqdn, nil
}

func (d *Driver) linuxSandboxConfig(
	pod *corev1.Pod, ids *journaletv1.UserNamespace,
) (*runtimeapi.LinuxPodSandboxConfig, error) {
	users, err := userNamespace(pod, ids)
	if err != nil {
		return nil, err
	}
	sc := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces(pod, users),
		Privileged:       anyPrivileged(pod),
		Seccomp:          d.sandboxProfile(),
	}
	parent, err := d.cgroupParent(pod)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxPodSandboxConfig{
		CgroupParent: parent, SecurityContext: sc, Sysctls: map[string]string{},
		Resources: d.sandboxResources(pod), Overhead: d.overhead(pod),
	}
	psc := pod.Spec.SecurityContext
	if psc == nil {
		return out, nil
	}
	for _, s := range psc.Sysctls {
		out.Sysctls[dottedSysctl(s.Name)] = s.Value
	}
	sc.RunAsUser, sc.RunAsGroup = int64Value(psc.RunAsUser), int64Value(psc.RunAsGroup)
	if sc.RunAsGroup != nil && sc.RunAsUser == nil {
		// CRI refuses a group without a user; containers get their group from their own configuration.
		sc.RunAsGroup = nil
	}
	sc.SelinuxOptions = selinuxOptions(psc.SELinuxOptions)
	sc.SupplementalGroups, sc.SupplementalGroupsPolicy, err = supplementalGroups(psc)
	return out, err
}

// dottedSysctl turns net/ipv4/conf into net.ipv4.conf; a manifest may use either form.
func dottedSysctl(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, name)
}

func (d *Driver) sandboxResources(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	return d.opts.Resources.settings(resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts))
}

func (d *Driver) overhead(pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return &runtimeapi.LinuxContainerResources{}
	}
	return d.opts.Resources.settings(pod.Spec.Overhead, pod.Spec.Overhead)
}
