package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// requestTimeout bounds the wait for one certificate (kubelet: 15 min), pollFirst and pollMax the pause between two
	// reads of it.
	requestTimeout = 15 * time.Minute
	pollFirst      = 100 * time.Millisecond
	pollMax        = 5 * time.Second
)

// errRefused means that a request was denied or has failed: only another key gets another answer.
var errRefused = errors.New("the CertificateSigningRequest was refused")

// request is one CertificateSigningRequest.
type request struct {
	name   string
	object *certificatesv1.CertificateSigningRequest
	public *ecdsa.PublicKey
}

// newRequest returns the request of a key. Its name is a function of the key, so that a crash finds it again.
func newRequest(key []byte, template *x509.CertificateRequest, signer string,
	usage certificatesv1.KeyUsage,
) (*request, error) {
	private, err := privateKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the key of the request: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return nil, fmt.Errorf("read the key of the request: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	sum := sha256.Sum256(append(public, signer...))
	r := &request{name: "node-csr-" + hex.EncodeToString(sum[:]), public: &private.PublicKey}
	r.object = &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
	return r, nil
}

// send creates the request unless it exists, and returns the certificate in PEM once it is signed.
func (r *request) send(ctx context.Context, c *client.Client) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	got, err := client.Create(ctx, c, client.CertificateSigningRequests, "", r.object)
	pause := pollFirst
	for {
		switch {
		case apierrors.IsAlreadyExists(err):
			pause = 0 // it is read now
		case err != nil:
			return nil, fmt.Errorf("request a certificate: %w", err)
		default:
			if cert, err := r.answer(got); cert != nil || err != nil {
				return cert, err
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("CertificateSigningRequest %s is not signed after %v; approve it", r.name, requestTimeout)
		case <-timer.C:
		}
		pause = min(max(2*pause, pollFirst), pollMax)
		one, stop := context.WithTimeout(ctx, client.RequestTimeout)
		got, err = client.Get(one, c, client.CertificateSigningRequests, "", r.name)
		stop()
	}
}

// answer returns the certificate of a request, nil if it has none yet.
func (r *request) answer(got *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	block, _ := pem.Decode(got.Spec.Request)
	if block == nil {
		return nil, fmt.Errorf("%w: %s holds no request", errRefused, r.name)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %s holds no request", errRefused, r.name)
	}
	if key, ok := parsed.PublicKey.(*ecdsa.PublicKey); !ok || !key.Equal(r.public) {
		return nil, fmt.Errorf("%w: %s is of another key", errRefused, r.name)
	}
	for _, c := range got.Status.Conditions {
		failed := c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed
		if failed && c.Status != corev1.ConditionFalse {
			return nil, fmt.Errorf("%w: %s is %s: %s %s", errRefused, r.name, c.Type, c.Reason, c.Message)
		}
	}
	return got.Status.Certificate, nil
}
