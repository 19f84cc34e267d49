package cri

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/bounded"
)

// hostsPath is the path of the managed hosts file in a container.
const hostsPath = "/etc/hosts"

// maxHostsBytes bounds how much of the host's file is copied.
const maxHostsBytes = 1 << 20

// hostsContent returns the hosts file of a pod: its own name, or a copy of the host's file for a pod on the host's
// network, and the pod's aliases.
func (d *Driver) hostsContent(pod *corev1.Pod, podIPs []string) ([]byte, error) {
	var b bytes.Buffer
	if pod.Spec.HostNetwork {
		text, err := bounded.ReadFile(d.opts.Network.HostsFile, maxHostsBytes)
		if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
			return nil, fmt.Errorf("copy the host's hosts file: %w", err)
		}
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(text)
	} else {
		hostname, domain := podHostname(pod, d.opts.Network.ClusterDomain)
		b.WriteString("# Kubernetes-managed hosts file.\n")
		b.WriteString("127.0.0.1\tlocalhost\n")
		b.WriteString("::1\tlocalhost ip6-localhost ip6-loopback\n")
		b.WriteString("fe00::0\tip6-localnet\n")
		b.WriteString("fe00::0\tip6-mcastprefix\n")
		b.WriteString("fe00::1\tip6-allnodes\n")
		b.WriteString("fe00::2\tip6-allrouters\n")
		for _, ip := range podIPs {
			if domain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s\t%s\n", ip, hostname, domain, hostname)
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, hostname)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, a := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.Bytes(), nil
}
