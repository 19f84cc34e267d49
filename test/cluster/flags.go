package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	// services is the range of cluster IPs, which kube-proxy routes where it runs.
	services  = "10.96.0.0/16"
	serviceIP = "10.96.0.1" // of kubernetes.default
	// ClusterDNS is the cluster IP of the DNS server, where one runs.
	ClusterDNS = "10.96.0.10"
	// kubeletClient is the user that the API server is to a node.
	kubeletClient = "kube-apiserver-kubelet-client"
	// frontProxyClient is the user that the API server is to the servers of further APIs.
	frontProxyClient = "front-proxy-client"
)

// schedulerConfig raises the limits of requests: a burst of pods measures the node, not the scheduler.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000}
`

// auditPolicy records who requested what, and no body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// flags returns the command line of a part of the control plane.
func (c *Cluster) flags(p Program) []string {
	switch p {
	case Etcd:
		return c.etcdFlags()
	case APIServer:
		return c.apiServerFlags()
	case ControllerManager:
		return c.controllerManagerFlags()
	case Scheduler:
		return []string{"--config", c.file("scheduler.yaml"), "--bind-address", "127.0.0.1",
			"--secure-port", fmt.Sprint(c.SchedulerPort), "--cert-dir", c.file("scheduler")}
	}
	return nil
}

func (c *Cluster) etcdFlags() []string {
	client, peer := "http://"+loopback(c.EtcdPort), "http://"+loopback(c.EtcdPeerPort)
	return []string{"--data-dir", c.file("etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer}
}

func (c *Cluster) apiServerFlags() []string {
	p := c.pki()
	flags := []string{
		"--etcd-servers", "http://" + loopback(c.EtcdPort),
		"--bind-address", "0.0.0.0", "--secure-port", fmt.Sprint(c.APIPort), "--advertise-address", c.Address,
		"--tls-cert-file", p.crt("apiserver"), "--tls-private-key-file", p.key("apiserver"), "--client-ca-file", p.crt("ca"),
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--enable-bootstrap-token-auth", "--allow-privileged",
		"--kubelet-client-certificate", p.crt("kubelet-client"), "--kubelet-client-key", p.key("kubelet-client"),
		"--kubelet-preferred-address-types", "InternalIP,Hostname",
		"--service-cluster-ip-range", services,
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--requestheader-client-ca-file", p.crt("ca"), "--requestheader-allowed-names", frontProxyClient,
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", p.crt("front-proxy"), "--proxy-client-key-file", p.key("front-proxy"),
		// Nothing routes cluster IPs on this machine: the API server goes to the endpoints of Services.
		"--enable-aggregator-routing",
		"--service-account-key-file", filepath.Join(p.dir, "sa.pub"), "--service-account-signing-key-file", p.key("sa"),
	}
	if c.Audit {
		flags = append(flags, "--audit-policy-file", c.file("audit.yaml"), "--audit-log-path", c.AuditLog())
	}
	if c.VerifyNodes {
		flags = append(flags, "--kubelet-certificate-authority", p.crt("ca"))
	}
	return append(flags, c.APIServerFlags...)
}

func (c *Cluster) controllerManagerFlags() []string {
	p := c.pki()
	flags := []string{
		"--kubeconfig", c.file(string(ControllerManager) + ".kubeconfig"), "--leader-elect=false",
		"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(c.ControllerManagerPort),
		"--cert-dir", c.file("controller-manager"), "--use-service-account-credentials",
		"--controllers", "*,bootstrap-signer-controller,token-cleaner-controller",
		"--cluster-signing-cert-file", p.crt("ca"), "--cluster-signing-key-file", p.key("ca"),
		"--root-ca-file", p.crt("ca"), "--service-account-private-key-file", p.key("sa"),
		"--kube-api-qps", "500", "--kube-api-burst", "1000",
	}
	if c.SignFor > 0 {
		flags = append(flags, "--cluster-signing-duration", c.SignFor.String())
	}
	return flags
}

// writeConfigs writes the files that the flags name.
func (c *Cluster) writeConfigs() error {
	for name, text := range map[string]string{
		"scheduler.yaml": fmt.Sprintf(schedulerConfig, c.file(string(Scheduler)+".kubeconfig")),
		"audit.yaml":     auditPolicy,
	} {
		if err := os.WriteFile(c.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
