package kubelet

import (
	"fmt"
	"strings"
	"testing"
)

// A tenant that holds all sessions it can get takes none of another namespace, and no log is kept from being read.
func TestSessionsOfOneNamespaceTakeNoneOfAnother(t *testing.T) {
	l := &Limits{}
	l.fill()
	limits := newLimiter(l)
	const api = "api server"
	greedy := func(pod string) share { return share{client: api, namespace: "greedy", pod: pod} }
	n := 0
	for limits.take(greedy("one")) == "" {
		n++
	}
	if n < 100 || n >= l.PerNamespace {
		t.Errorf("%d sessions at once in one pod", n)
	}
	if why := limits.take(greedy("two")); why != "" {
		t.Errorf("another pod of the namespace: %s", why)
	}
	for i := range 1000 {
		limits.take(greedy(fmt.Sprint(i)))
	}
	if got := limits.all[false]; got != l.PerNamespace {
		t.Errorf("one namespace has %d sessions of %d", got, l.Sessions)
	}
	for _, s := range []share{
		{client: api, namespace: "other", pod: "p"}, {client: api, namespace: "greedy", pod: "one", logs: true},
		{client: "another", namespace: "greedy", pod: "one"},
	} {
		for i := range 100 {
			if why := limits.take(s); why != "" {
				t.Fatalf("%+v, session %d: %s", s, i, why)
			}
		}
	}
}

// A client that connects by itself to pods of many namespaces leaves the API server a part.
func TestSessionsOfOneClientLeaveOthersAPart(t *testing.T) {
	l := &Limits{Burst: 10_000}
	l.fill()
	limits := newLimiter(l)
	for i := range 10_000 {
		limits.take(share{client: "greedy", namespace: fmt.Sprint(i), pod: "p"})
	}
	for i := range 100 {
		if why := limits.take(share{client: "api server", namespace: "0", pod: "p"}); why != "" {
			t.Fatalf("session %d of another client: %s", i, why)
		}
	}
}

func TestRateOfSessionsIsOfOneNamespace(t *testing.T) {
	l := &Limits{Rate: 1e-9, Burst: 5}
	l.fill()
	limits := newLimiter(l)
	s, other := share{namespace: "busy", pod: "p"}, share{namespace: "other", pod: "p"}
	for range 5 {
		if why := limits.take(s); why != "" {
			t.Fatal(why)
		}
		limits.release(s)
	}
	if why := limits.take(s); !strings.Contains(why, "a second") {
		t.Errorf("a session beyond the rate: %q", why)
	}
	if why := limits.take(other); why != "" {
		t.Error(why)
	}
	limits.release(other)
	if len(limits.used) != 0 {
		t.Errorf("sessions are left: %v", limits.used)
	}
}

func TestRatesOfNamespacesThatAreGoneAreDropped(t *testing.T) {
	l := &Limits{Rate: 1e12}
	l.fill()
	limits := newLimiter(l)
	for i := range 3 * maxRates {
		s := share{namespace: fmt.Sprint("gone", i)}
		limits.take(s)
		limits.release(s)
	}
	if n := len(limits.rates); n > maxRates {
		t.Errorf("the rates of %d namespaces are kept", n)
	}
}
