//go:build cluster

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/journalet/journalet/test/must"
)

// soon bounds what a control plane on a busy machine does.
const soon = 30 * time.Second

func clientOf(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must.OK(t, err)
	client, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	return client
}

// eventually repeats try until it returns no error.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	eventuallyWithin(t, soon, try)
}

func eventuallyWithin(t *testing.T, limit time.Duration, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must.OK(t, Until(ctx, try))
}

func node(name string) *core.Node { return &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}} }

// TestControlPlane runs its parts on one control plane, which takes seconds to start.
func TestControlPlane(t *testing.T) {
	started := time.Now()
	c := Up(t, Options{Audit: true})
	t.Logf("up in %s", time.Since(started).Round(time.Millisecond))
	for _, p := range parts {
		pid, err := c.Running(p)
		must.OK(t, err)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		must.OK(t, err)
		_, rss, _ := strings.Cut(string(status), "VmRSS:")
		rss, _, _ = strings.Cut(rss, "\n")
		t.Logf("%s: RSS %s", p, strings.TrimSpace(rss))
	}
	t.Run("node creates its own Node alone", func(t *testing.T) { nodeCreatesItsOwnAlone(t, c) })
	t.Run("expired certificate is refused", func(t *testing.T) { expiredIsRefused(t, c) })
	t.Run("bootstrap request is signed", func(t *testing.T) { bootstrapIsSigned(t, c) })
	t.Run("kubectl reports its version", func(t *testing.T) { kubectlWorks(t, c) })
	t.Run("tenant is answered", func(t *testing.T) { tenantIsAnswered(t, c) })
	t.Run("requests are in the audit log", func(t *testing.T) { requestsAreAudited(t, c) })
	t.Run("state survives kills", func(t *testing.T) { stateSurvivesKills(t, c) })
	t.Run("frozen API server answers nothing", func(t *testing.T) { frozenAnswersNothing(t, c) })
}

func nodeCreatesItsOwnAlone(t *testing.T, c *Cluster) {
	kubeconfig, err := c.Node("alpha")
	must.OK(t, err)
	nodes := clientOf(t, kubeconfig).CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), node("alpha"), meta.CreateOptions{})
	must.OK(t, err)
	if _, err = nodes.Create(t.Context(), node("beta"), meta.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("alpha creates the Node beta: %v, want forbidden", err)
	}
}

func expiredIsRefused(t *testing.T, c *Cluster) {
	kubeconfig, err := c.Kubeconfig("expired", "admin", []string{"system:masters"}, time.Now().Add(-time.Minute))
	must.OK(t, err)
	_, err = clientOf(t, kubeconfig).CoreV1().Nodes().List(t.Context(), meta.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("an expired certificate lists nodes: %v, want unauthorized", err)
	}
}

func bootstrapIsSigned(t *testing.T, c *Cluster) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:gamma", Organization: []string{"system:nodes"}},
	}, key)
	must.OK(t, err)
	requests := clientOf(t, c.Bootstrap()).CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(t.Context(), &certificates.CertificateSigningRequest{
		ObjectMeta: meta.ObjectMeta{Name: "gamma"},
		Spec: certificates.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificates.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth},
		},
	}, meta.CreateOptions{})
	must.OK(t, err)
	eventually(t, func() error {
		csr, err = requests.Get(t.Context(), csr.Name, meta.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			return fmt.Errorf("no certificate, conditions %v", csr.Status.Conditions)
		}
		return err
	})
	block, _ := pem.Decode(csr.Status.Certificate)
	crt, err := x509.ParseCertificate(block.Bytes)
	must.OK(t, err)
	if got := crt.Subject.CommonName; got != "system:node:gamma" {
		t.Errorf("the certificate is that of %s", got)
	}
}

func kubectlWorks(t *testing.T, c *Cluster) {
	out, err := c.Command(t.Context(), "version").CombinedOutput()
	must.OK(t, err)
	if want := "Server Version: " + Version; !strings.Contains(string(out), want) {
		t.Errorf("kubectl version printed %q, want %q", out, want)
	}
}

func requestsAreAudited(t *testing.T, c *Cluster) {
	eventually(t, func() error {
		log, err := os.ReadFile(c.AuditLog())
		if err == nil && !strings.Contains(string(log), `"username":"system:node:alpha"`) {
			return errors.New("the audit log names no request of alpha")
		}
		return err
	})
}

func stateSurvivesKills(t *testing.T, c *Cluster) {
	for _, p := range []Program{APIServer, Etcd} {
		must.OK(t, c.Kill(p))
		if pid, err := c.Running(p); pid != 0 || err != nil {
			t.Fatalf("%s runs after SIGKILL, pid %d (%v)", p, pid, err)
		}
		must.OK(t, c.Launch(t.Context(), p))
	}
	must.OK(t, c.Ready(t.Context(), APIServer))
	eventually(t, func() error {
		_, err := c.MustClient(t).CoreV1().Nodes().Get(t.Context(), "alpha", meta.GetOptions{})
		return err
	})
}

func frozenAnswersNothing(t *testing.T, c *Cluster) {
	must.OK(t, c.Signal(APIServer, syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.MustClient(t).CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen API server answers: %v", err)
	}
	must.OK(t, c.Signal(APIServer, syscall.SIGCONT))
	must.OK(t, c.Ready(t.Context(), APIServer))
}
