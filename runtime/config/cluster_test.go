package config

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestFieldsOfAClusterAreHonouredInAClusterOnly(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+`registerNode: false
nodeStatusUpdateFrequency: 20s
nodeLeaseDurationSeconds: 80
kubeAPIQPS: 7
rotateCertificates: true
registerWithTaints: [{key: k, value: v, effect: NoSchedule}]
port: 10350
authentication: {x509: {clientCAFile: pki/ca.crt}, anonymous: {enabled: true}}
authorization: {mode: AlwaysAllow}
tlsMinVersion: VersionTLS13
`)
	c, problems := mustLoad(t, "--config", file)
	if len(problems) != 10 || !c.Cluster.RegisterNode || c.Server.Port != defaultPort {
		t.Errorf("without a cluster: warnings on %v, %+v", named(problems), c.Cluster)
	}
	c, problems = mustLoad(t, "--config", file, "--kubeconfig", "/k", "--kube-api-qps", "9", "--anonymous-auth=false")
	l, s := c.Cluster, c.Server
	if len(problems) != 0 || l.RegisterNode || l.UpdateEvery() != 20*time.Second || l.ReportEvery() != 20*time.Second ||
		l.LeaseSeconds != 80 || l.QPS != 9 || !l.RotateCertificates || l.RegisterWithTaints[0].Value != "v" ||
		s.Port != 10350 || s.ClientCAFile != filepath.Join(filepath.Dir(file), "pki/ca.crt") || s.Anonymous ||
		s.Authorization != AuthorizeAll || s.TLSMinVersion != "VersionTLS13" {
		t.Errorf("in a cluster: warnings on %v, %+v, %+v", named(problems), l, s)
	}
}

func TestWhatKubeadmWritesIsTakenInACluster(t *testing.T) {
	c, problems := mustLoad(t, "--config", "testdata/kubeadm.yaml", "--kubeconfig", "/etc/kubernetes/kubelet.conf",
		"--bootstrap-kubeconfig", "/etc/kubernetes/bootstrap-kubelet.conf",
		"--register-with-taints", "node-role.kubernetes.io/control-plane=:NoSchedule", "--hostname-override", "n",
		"--node-ip", "10.0.0.1")
	if len(problems) != 0 || !c.Cluster.RotateCertificates || c.Server.ClientCAFile != "/etc/kubernetes/pki/ca.crt" ||
		c.Cluster.ReportEvery() != defaultStatusReport ||
		c.Cluster.RegisterWithTaints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("warnings on %v, %+v", named(problems), c.Cluster)
	}
}

func TestOldTLSVersionBecomesTheLowestSecureOne(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+"tlsMinVersion: VersionTLS10\n")
	for from, args := range map[string][]string{
		file:                {"--config", file, "--kubeconfig", "/k"},
		"--tls-min-version": {"--config", file, "--kubeconfig", "/k", "--tls-min-version", "VersionTLS11"},
	} {
		c, problems := mustLoad(t, args...)
		if len(problems) != 1 || problems[0].File != from || problems[0].Field != "tlsMinVersion" ||
			c.Server.TLSVersion() != tls.VersionTLS12 {
			t.Errorf("%v: %v, TLS %x", args, problems, c.Server.TLSVersion())
		}
	}
	// Without a cluster there is no such server, and one remark is enough.
	if _, problems := mustLoad(t, "--config", file); len(problems) != 1 || problems[0].Message != noCluster {
		t.Errorf("without a cluster: %v", problems)
	}
	c, problems := mustLoad(t, "--kubeconfig", "/k", "--tls-min-version", "VersionTLS13")
	if len(problems) > 0 || c.Server.TLSVersion() != tls.VersionTLS13 {
		t.Errorf("a newer version: %v, TLS %x", problems, c.Server.TLSVersion())
	}
}

func TestContradictionsOfAClusterAreRejected(t *testing.T) {
	for want, args := range map[string][]string{
		"is reserved":       {"--node-labels", "node-role.kubernetes.io/worker=yes"},
		"--cloud-provider":  {"--cloud-provider", "aws"},
		"belong together":   {"--tls-cert-file", "/c"},
		"tlsMinVersion":     {"--tls-min-version", "VersionSSL30"},
		"kubeAPIQPS":        {"--kube-api-qps", "-1"},
		"needs --lock-file": {"--exit-on-lock-contention"},
	} {
		c, _, err := load(t, append(args, "--kubeconfig", "/k")...)
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: returned %v, want %q", args, err, want)
		}
	}
}
