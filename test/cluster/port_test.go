//go:build cluster

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/must"
)

const (
	// signFor has a serving certificate renewed 15 to 105 s after it was signed: at 70 to 90 % of a lifetime that began
	// five minutes before.
	signFor = 150 * time.Second
	// rotates bounds the wait for that, with up to 10 s until the agent compares the clock.
	rotates = 2 * time.Minute
	// mirrored is the mirror pod of the static pod of this test.
	mirrored = "talker-ours"
)

const talker = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talker"}, "spec": {
	"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "` + busybox + `",
	"command": ["sh", "-c", "echo spoken; sleep 10000"]}]}}`

// portNode is an agent of ours whose port is the subject: the cluster signs its certificate, and a file of this test
// names the authorities of its clients.
type portNode struct {
	*ours
	manifest, clientCA string
	before, after      *authority.Authority // of clients
	readOnly           int
	first              *x509.Certificate // that the port serves
}

// TestPortAndMirrorPodsOfANode runs with an API server that verifies the certificates of nodes.
func TestPortAndMirrorPodsOfANode(t *testing.T) {
	n := &portNode{
		ours:   newOurs(t, Options{VerifyNodes: true, SignFor: signFor}),
		before: authority.New(t), after: authority.New(t),
	}
	dir := t.TempDir()
	n.manifest, n.clientCA = filepath.Join(dir, "pods", "talker.json"), filepath.Join(dir, "clients.crt")
	must.OK(t, os.Mkdir(filepath.Dir(n.manifest), 0o700))
	must.OK(t, freePorts(dir, &n.readOnly))
	n.trust(t, n.before)
	n.node.Issued, n.node.Config = true, "serverTLSBootstrap: true\n"
	n.node.Flags = []string{"--static-pod-path", filepath.Dir(n.manifest), "--client-ca-file", n.clientCA,
		"--read-only-port", strconv.Itoa(n.readOnly)}
	must.OK(t, n.StartAgent(t.Context(), n.program, n.node))
	t.Run("mirror pod shows its static pod", n.mirrors)
	t.Run("port waits for its certificate", n.waitsForApproval)
	t.Run("other authorities of clients count at once", n.reloads)
	t.Run("read-only port shows and changes nothing", n.readsOnly)
	t.Run("certificate is renewed", n.renews)
	t.Run("mirror pod goes with its static pod", n.unmirrors)
}

// trust has the port trust clients of the cluster, which the API server is one of, and of another authority.
func (n *portNode) trust(t *testing.T, a *authority.Authority) {
	t.Helper()
	ca, err := os.ReadFile(n.CA())
	must.OK(t, err)
	must.OK(t, os.WriteFile(n.clientCA+".new", slices.Concat(ca, a.PEM()), 0o600))
	must.OK(t, os.Rename(n.clientCA+".new", n.clientCA))
}

func (n *portNode) mirrors(t *testing.T) {
	must.OK(t, os.WriteFile(n.manifest+".new", []byte(talker), 0o600))
	must.OK(t, os.Rename(n.manifest+".new", n.manifest))
	eventually(t, func() error {
		_, err := n.MustClient(t).CoreV1().Pods("default").Get(t.Context(), mirrored, meta.GetOptions{})
		return err
	})
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/"+mirrored, "--timeout=30s")
	const container = "jsonpath={.status.containerStatuses[0].containerID}"
	uid := n.kubectl(t, "", "get", "pod", mirrored, "-o", "jsonpath={.metadata.uid}")
	id := n.kubectl(t, "", "get", "pod", mirrored, "-o", container)
	n.kubectl(t, "", "delete", "pod", mirrored, "--force", "--timeout=30s")
	eventually(t, func() error {
		p, err := n.MustClient(t).CoreV1().Pods("default").Get(t.Context(), mirrored, meta.GetOptions{})
		if err == nil && (string(p.UID) == uid || len(p.Status.ContainerStatuses) == 0) {
			err = fmt.Errorf("the mirror pod has UID %s and %d containers", p.UID, len(p.Status.ContainerStatuses))
		}
		return err
	})
	if now := n.kubectl(t, "", "get", "pod", mirrored, "-o", container); now != id {
		t.Errorf("the container is %s, and was %s before its mirror pod was deleted", now, id)
	}
}

// approve has an administrator approve the request for a serving certificate that comes within a time.
func (n *portNode) approve(t *testing.T, within time.Duration) {
	t.Helper()
	name := ""
	eventuallyWithin(t, within, func() error {
		list, err := n.MustClient(t).CertificatesV1().CertificateSigningRequests().List(t.Context(), meta.ListOptions{
			FieldSelector: "spec.signerName=" + certificates.KubeletServingSignerName,
		})
		if err != nil {
			return err
		}
		for _, csr := range list.Items {
			if len(csr.Status.Conditions) == 0 {
				name = csr.Name
				return nil
			}
		}
		return fmt.Errorf("none of %d requests waits", len(list.Items))
	})
	n.kubectl(t, "", "certificate", "approve", name)
}

// logs returns what kubectl prints of the static pod's log, by way of the API server.
func (n *portNode) logs(t *testing.T) (string, error) {
	out, err := n.Command(t.Context(), "logs", mirrored).CombinedOutput()
	return string(out), err
}

// port returns the address of the port, as the Node has it.
func (n *portNode) port(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort(n.Address, n.kubectl(t, "", "get", "node", "ours", "-o",
		"jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}"))
}

// config returns how the port is connected to: its certificate is verified as the API server does, for a name.
func (n *portNode) config(t *testing.T, name string) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(n.CA())
	must.OK(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}
}

// serves returns the certificate of the port, verified for its address or its node's name.
func (n *portNode) serves(t *testing.T, name string) (*x509.Certificate, error) {
	t.Helper()
	c, err := (&tls.Dialer{Config: n.config(t, name)}).DialContext(t.Context(), "tcp", n.port(t))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func (n *portNode) waitsForApproval(t *testing.T) {
	if out, err := n.logs(t); err == nil || !strings.Contains(out, "tls") {
		t.Errorf("without a certificate, the log is %q, %v", out, err)
	}
	n.approve(t, soon)
	eventually(t, func() error {
		out, err := n.logs(t)
		if err == nil && out != "spoken\n" {
			err = fmt.Errorf("the log is %q", out)
		}
		return err
	})
	for _, name := range []string{n.Address, "ours"} {
		crt, err := n.serves(t, name)
		must.OK(t, err)
		n.first = crt
	}
	if subject := n.first.Subject.String(); subject != "CN=system:node:ours,O=system:nodes" {
		t.Errorf("the certificate is that of %s", subject)
	}
	if out := n.kubectl(t, "typed", "exec", "-i", mirrored, "--", "cat"); out != "typed" {
		t.Errorf("exec returned %q", out)
	}
}

// client returns what requests a page as a client of an authority, and its status.
func (n *portNode) client(t *testing.T, ca *authority.Authority, keep bool) func() (int, error) {
	t.Helper()
	config := n.config(t, "ours")
	config.Certificates = []tls.Certificate{*ca.Client(t, "reader", "system:masters")}
	tr := &http.Transport{TLSClientConfig: config, DisableKeepAlives: !keep}
	t.Cleanup(tr.CloseIdleConnections)
	url := "https://" + n.port(t) + "/pods"
	return func() (int, error) { return status(t, tr, http.MethodGet, url) }
}

// status sends a request and returns the status of the response, whose body it reads.
func status(t *testing.T, tr http.RoundTripper, method, url string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	must.OK(t, err)
	res, err := tr.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

// reloads replaces the file with the authorities of clients while the agent runs.
func (n *portNode) reloads(t *testing.T) {
	// That of the old authority stays connected.
	before, after := n.client(t, n.before, true), n.client(t, n.after, false)
	want := func(what string, get func() (int, error), code int) error {
		got, err := get()
		if err == nil && got != code {
			err = fmt.Errorf("%s gets %d, want %d", what, got, code)
		}
		return err
	}
	both := func(ofBefore, ofAfter int) error {
		return errors.Join(want("a client of the old authority", before, ofBefore),
			want("a client of the new authority", after, ofAfter))
	}
	must.OK(t, both(http.StatusOK, http.StatusUnauthorized))
	n.trust(t, n.after)
	eventually(t, func() error { return both(http.StatusUnauthorized, http.StatusOK) })
	must.OK(t, os.WriteFile(n.clientCA, []byte("garbage"), 0o600))
	if out, err := n.logs(t); err != nil {
		t.Errorf("the API server is a client of an authority that stays: %v, %s", err, out)
	}
}

func (n *portNode) readsOnly(t *testing.T) {
	pod := "/default/" + mirrored + "/main"
	for path, code := range map[string]int{
		"/pods": 200, "/healthz": 200, "/stats/summary": 200, "/metrics": 200, "/metrics/cadvisor": 200,
		"/metrics/resource": 200, "/metrics/probes": 200, "/metrics/slis": 200,
		"/containerLogs" + pod: 404, "/exec" + pod + "?command=id&output=1": 404, "/attach" + pod: 404, "/run" + pod: 404,
		"/portForward/default/" + mirrored: 404, "/checkpoint" + pod: 404, "/runningpods/": 404, "/configz": 404,
		"/logs/": 404, "/debug/pprof/": 404, "/statusz": 404, "/flagz": 404, "/": 404,
	} {
		for method, want := range map[string]int{http.MethodGet: code, http.MethodPost: 404} {
			got, err := status(t, http.DefaultTransport, method, fmt.Sprintf("http://127.0.0.1:%d%s", n.readOnly, path))
			if err != nil || got != want {
				t.Errorf("%s %s: %d, %v; want %d", method, path, got, err, want)
			}
		}
	}
}

// renews waits until the certificate is due, and approves the request for the next one.
func (n *portNode) renews(t *testing.T) {
	n.approve(t, rotates)
	eventually(t, func() error {
		crt, err := n.serves(t, "ours")
		if err == nil && crt.Equal(n.first) {
			err = errors.New("the certificate is the first one")
		}
		return err
	})
	if out, err := n.logs(t); err != nil {
		t.Errorf("with another certificate: %v, %s", err, out)
	}
	const rotated = "kubelet_certificate_manager_server_rotation_seconds_count 1\n"
	if out := n.kubectl(t, "", "get", "--raw", "/api/v1/nodes/ours/proxy/metrics"); !strings.Contains(out, rotated) {
		t.Errorf("the metrics do not have %s", rotated)
	}
}

func (n *portNode) unmirrors(t *testing.T) {
	must.OK(t, os.Remove(n.manifest))
	n.kubectl(t, "", "wait", "--for=delete", "pod/"+mirrored, "--timeout=30s")
}
