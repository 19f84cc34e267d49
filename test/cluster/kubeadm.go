package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
)

// joinToken is the bootstrap token of kubeadm's join.
const joinToken = "kubead.fedcba9876543210"

// kubeadmConfig is the cluster as kubeadm describes it. The first node stands for the control plane's.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: %q, ttl: 24h, usages: [signing, authentication], groups: [%q]}]
nodeRegistration: {name: first, criSocket: "unix:///run/containerd/containerd.sock"}
localAPIEndpoint: {advertiseAddress: %q, bindPort: %d}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
networking: {serviceSubnet: %s}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
%s
`

// Join is what a machine needs to join the cluster by kubeadm.
type Join struct {
	// Server is the address and port of the API server.
	Server string
	Token  string
	// CAHash is the hash of the authority's public key, as kubeadm takes it.
	CAHash string
}

// Arguments returns the arguments of kubeadm.
func (j *Join) Arguments() []string {
	return []string{"join", j.Server, "--token", j.Token, "--discovery-token-ca-cert-hash", j.CAHash}
}

// PrepareJoin has kubeadm write what its join reads: the ConfigMaps kubeadm-config, kubelet-config and cluster-info, a
// bootstrap token, and the permissions of clients with this token. kubelet are lines of the KubeletConfiguration of all
// nodes.
func (c *Cluster) PrepareJoin(ctx context.Context, kubelet string) (*Join, error) {
	if _, err := Provide(ctx, Kubeadm); err != nil {
		return nil, err
	}
	config := c.file("kubeadm.yaml")
	text := fmt.Sprintf(kubeadmConfig, joinToken, bootstrappers, c.Address, c.APIPort, Version, services, kubelet)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token"}} {
		args := append(append([]string{"init", "phase"}, phase...), "--config", config, "--kubeconfig", c.Admin())
		cmd := exec.CommandContext(ctx, c.Program(Kubeadm), args...) //nolint:gosec // arguments of this package
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("kubeadm init phase %v: %w\n%s", phase, err, out)
		}
	}
	ca, _, err := c.pki().authority()
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return &Join{
		Server: net.JoinHostPort(c.Address, strconv.Itoa(c.APIPort)), Token: joinToken,
		CAHash: "sha256:" + hex.EncodeToString(hash[:]),
	}, nil
}
