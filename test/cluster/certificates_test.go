//go:build cluster

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/must"
)

// certifies has a pod wait for its signer, start with the certificate that it issues, and keep that while a pod that is
// denied waits.
func (n *ours) certifies(t *testing.T) {
	pod := func(name string) *core.Pod {
		return &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.PodSpec{
			Containers: []core.Container{{
				Name: "c", Image: busybox, Command: []string{"sleep", "1000"},
				VolumeMounts: []core.VolumeMount{{Name: "tls", MountPath: "/tls"}},
			}},
			Volumes: []core.Volume{{Name: "tls", VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{
				Sources: []core.VolumeProjection{{PodCertificate: &core.PodCertificateProjection{
					SignerName: "example.com/pods", KeyType: "ECDSAP256", CredentialBundlePath: "bundle",
					KeyPath: "key", CertificateChainPath: "chain",
					UserAnnotations: map[string]string{"example.com/for": name},
				}}},
			}}}},
		}}
	}
	for _, name := range []string{"certified", "denied"} {
		_, err := n.MustClient(t).CoreV1().Pods("default").Create(t.Context(), pod(name), meta.CreateOptions{})
		must.OK(t, err)
	}
	signer := authority.New(t)
	n.answers(t, "certified", func(r *certificates.PodCertificateRequest) {
		stub, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
		must.OK(t, err)
		begin := time.Now().Truncate(time.Second)
		der := signer.SignFor(t, &x509.Certificate{
			Subject: pkix.Name{CommonName: r.Spec.PodName}, NotBefore: begin, NotAfter: begin.Add(2 * time.Hour),
		}, stub.PublicKey)
		at := func(after time.Duration) *meta.Time { return new(meta.NewTime(begin.Add(after))) }
		r.Status.CertificateChain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		r.Status.NotBefore, r.Status.BeginRefreshAt, r.Status.NotAfter = at(0), at(time.Hour), at(2*time.Hour)
	}, "Issued")
	n.answers(t, "denied", func(*certificates.PodCertificateRequest) {}, "Denied")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/certified", "--timeout=60s")
	read := func(file string) string {
		out, err := n.Command(t.Context(), "exec", "certified", "--", "cat", "/tls/"+file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
		return string(out)
	}
	if _, err := tls.X509KeyPair([]byte(read("chain")), []byte(read("key"))); err != nil {
		t.Error(err)
	}
	if read("bundle") != read("key")+read("chain") {
		t.Error("the bundle is not the key and the chain")
	}
	eventually(t, func() error {
		out := n.kubectl(t, "", "get", "events", "--field-selector=involvedObject.name=denied", "-o",
			`jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}`)
		for _, want := range []string{"Denied PodCertificateRequest default/req-", "FailedMount MountVolume.SetUp failed"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("no event %q of:\n%s", want, out)
			}
		}
		return nil
	})
}

// answers answers the request of a pod with a condition.
func (n *ours) answers(t *testing.T, pod string, change func(*certificates.PodCertificateRequest), kind string) {
	t.Helper()
	requests := n.MustClient(t).CertificatesV1().PodCertificateRequests("default")
	eventually(t, func() error {
		all, err := requests.List(t.Context(), meta.ListOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all.Items, func(r certificates.PodCertificateRequest) bool { return r.Spec.PodName == pod })
		if i < 0 {
			return fmt.Errorf("no request of pod %s", pod)
		}
		r := &all.Items[i]
		change(r)
		r.Status.Conditions = []meta.Condition{{
			Type: kind, Status: meta.ConditionTrue, Reason: "Test", Message: "by the test", LastTransitionTime: meta.Now(),
		}}
		_, err = requests.UpdateStatus(t.Context(), r, meta.UpdateOptions{})
		return err
	})
}
