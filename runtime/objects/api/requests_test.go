package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/test/must"
)

// An answer may be read before the name of the request is known. Others may send what was sent again: it is public.
func TestOnlyTheOwnRequestIsTheAnswer(t *testing.T) {
	c := newCertificates()
	own, err := newKey("ED25519")
	must.OK(t, err)
	requestOf := func(namespace, name, kind string) *certificatesv1.PodCertificateRequest {
		o := &certificatesv1.PodCertificateRequest{}
		o.Namespace, o.Name, o.UID = namespace, name, types.UID("uid of "+name)
		o.Spec.StubPKCS10Request = own.stub
		o.Status.Conditions = condition(kind, "Because", "")
		return o
	}
	r := c.expect("ns", own)
	for i := range 2 * maxEarly {
		must.OK(t, c.Add(requestOf("other", "own", "Denied")))
		must.OK(t, c.Add(requestOf("ns", "own", "Issued")))
		must.OK(t, c.Add(requestOf("ns", fmt.Sprint("copy-", i), "Denied")))
	}
	if len(r.early) != maxEarly {
		t.Errorf("%d answers are kept", len(r.early))
	}
	c.created(r, requestOf("ns", "own", ""))
	must.OK(t, c.Add(requestOf("ns", "copy", "Denied")))
	must.OK(t, c.Delete(requestOf("ns", "copy", "")))
	if a, there, _ := c.state(r); a.kind != "Issued" || !there || a.reason != "Because" {
		t.Errorf("the answer is %v, %v", a, there)
	}
	take := c.begin()
	take(requestOf("ns", "copy", "Denied"))
	must.OK(t, c.Replace(nil, ""))
	if _, there, _ := c.state(r); there {
		t.Error("it is there, and not in the list")
	}
	take = c.begin()
	take(requestOf("ns", "own", "Issued"))
	must.OK(t, c.Replace(nil, ""))
	if _, there, _ := c.state(r); !there {
		t.Error("it is in the list, and not there")
	}
}

func TestNamespacesTakeTurnsWithTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for _, namespace := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			all.Go(func() {
				must.OK(t, turns.do(t.Context(), namespace, func() {
					<-time.After(time.Second)
					mu.Lock()
					defer mu.Unlock()
					order = append(order, namespace)
				}))
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if turns.do(ctx, "d", func() { t.Error("it had a turn") }) == nil {
			t.Error("a turn without an end")
		}
		all.Wait()
		if got := strings.Join(order, ""); got != "abcabaa" {
			t.Errorf("the order is %s", got)
		}
		if len(turns.byNamespace) > 0 {
			t.Errorf("%v is left", turns.byNamespace)
		}
	})
}

func TestKeysAreOfTheTypeThatASourceNames(t *testing.T) {
	for kind, want := range map[string]string{
		"RSA3072": "*rsa.PublicKey 3072", "ECDSAP256": "*ecdsa.PublicKey 256", "ECDSAP384": "*ecdsa.PublicKey 384",
		"ECDSAP521": "*ecdsa.PublicKey 521", "ED25519": "ed25519.PublicKey 256",
	} {
		k, err := newKey(kind)
		must.OK(t, err)
		stub, err := x509.ParseCertificateRequest(k.stub)
		must.OK(t, err)
		must.OK(t, stub.CheckSignature())
		bits := 8 * ed25519.PublicKeySize
		switch p := stub.PublicKey.(type) {
		case *rsa.PublicKey:
			bits = p.N.BitLen()
		case *ecdsa.PublicKey:
			bits = p.Curve.Params().BitSize
		}
		if got := fmt.Sprintf("%T %d", stub.PublicKey, bits); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
		if stub.Subject.String() != "" {
			t.Errorf("%s: the request names %s", kind, stub.Subject)
		}
	}
}
