package cluster

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	texttemplate "text/template"
)

// CoreDNSVersion is the release that dns/go.mod names: kubeadm's of this release.
const CoreDNSVersion = "v1.14.6"

//go:embed addons
var addons embed.FS

// InstallAddons runs kube-proxy on each node, and a DNS server at ClusterDNS, and returns when both serve. It needs
// nodes that can pull registry.k8s.io/kube-proxy and registry.k8s.io/coredns/coredns.
func (c *Cluster) InstallAddons(ctx context.Context) error {
	manifests, err := texttemplate.ParseFS(addons, "addons/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range []string{"kube-proxy.yaml", "coredns.yaml"} {
		var text bytes.Buffer
		if err := manifests.ExecuteTemplate(&text, name, map[string]string{
			"Server": c.Server(), "Pods": podRange, "ClusterDNS": ClusterDNS, "Version": Version,
			"CoreDNSVersion": CoreDNSVersion,
		}); err != nil {
			return err
		}
		apply := c.Command(ctx, "apply", "-f", "-")
		apply.Stdin = &text
		if _, err := output(apply); err != nil {
			return err
		}
	}
	for _, workload := range []string{"daemonset/kube-proxy", "deployment/coredns"} {
		wait := c.Command(ctx, "rollout", "status", workload, "-n", "kube-system", fmt.Sprint("--timeout=", readyTimeout))
		if _, err := output(wait); err != nil {
			return err
		}
	}
	return nil
}
