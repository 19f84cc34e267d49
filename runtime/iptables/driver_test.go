package iptables

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// memory are tables in memory.
type memory struct {
	chains map[string][]string // the rules, by table and chain
	// refused is a chain, with its table, that cannot be created.
	refused string
	ran     int
}

func newMemory() *memory {
	return &memory{chains: map[string][]string{"filter INPUT": nil, "filter OUTPUT": nil}}
}

func (m *memory) ChainExists(table, chain string) (bool, error) {
	m.ran++
	_, ok := m.chains[table+" "+chain]
	return ok, nil
}

func (m *memory) NewChain(table, chain string) error {
	m.ran++
	if m.refused == table+" "+chain {
		return errors.New("refused")
	}
	m.chains[table+" "+chain] = nil
	return nil
}

func (m *memory) add(table, chain string, first bool, rule []string) error {
	m.ran++
	at, text := table+" "+chain, strings.Join(rule, " ")
	rules, ok := m.chains[at]
	switch {
	case !ok:
		return fmt.Errorf("no chain %s", at)
	case slices.Contains(rules, text):
	case first:
		m.chains[at] = append([]string{text}, rules...)
	default:
		m.chains[at] = append(rules, text)
	}
	return nil
}

func (m *memory) InsertUnique(table, chain string, _ int, rule ...string) error {
	return m.add(table, chain, true, rule)
}

func (m *memory) AppendUnique(table, chain string, rule ...string) error {
	return m.add(table, chain, false, rule)
}

func (m *memory) names() string {
	var out []string
	for name, rules := range m.chains {
		out = append(out, fmt.Sprintf("%s %d", name, len(rules)))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

const (
	wantIPv4 = "filter INPUT 1, filter KUBE-FIREWALL 1, filter KUBE-KUBELET-CANARY 0, filter OUTPUT 1, " +
		"mangle KUBE-IPTABLES-HINT 0, mangle KUBE-KUBELET-CANARY 0, nat KUBE-KUBELET-CANARY 0"
	wantIPv6 = "filter INPUT 0, filter KUBE-KUBELET-CANARY 0, filter OUTPUT 0, " +
		"mangle KUBE-IPTABLES-HINT 0, mangle KUBE-KUBELET-CANARY 0, nat KUBE-KUBELET-CANARY 0"
)

func TestChainsAreCreatedOnceAndAgainWhenTheyAreGone(t *testing.T) {
	for _, c := range []struct {
		six  bool
		want string
	}{{false, wantIPv4}, {true, wantIPv6}} {
		m := newMemory()
		f := &Family{IPv6: c.six, Tables: m}
		must.OK(t, f.keep())
		if m.names() != c.want {
			t.Errorf("IPv6 %v: %s, want %s", c.six, m.names(), c.want)
		}
		m.ran = 0
		must.OK(t, f.keep())
		if m.ran != 1 {
			t.Errorf("IPv6 %v: %d programs ran although nothing had changed, want 1", c.six, m.ran)
		}
		m.chains = newMemory().chains
		must.OK(t, f.keep())
		if m.names() != c.want {
			t.Errorf("IPv6 %v: after all rules were removed %s, want %s", c.six, m.names(), c.want)
		}
	}
}

func TestRuleThatFailedIsTriedAgain(t *testing.T) {
	m := newMemory()
	delete(m.chains, "filter INPUT")
	f := &Family{Tables: m}
	if f.keep() == nil {
		t.Fatal("no error although INPUT is missing")
	}
	m.chains["filter INPUT"] = nil
	must.OK(t, f.keep())
	if m.names() != wantIPv4 {
		t.Errorf("%s, want %s", m.names(), wantIPv4)
	}
}

func TestCanaryThatFailedIsTriedAgain(t *testing.T) {
	m := newMemory()
	m.refused = "nat " + canaryChain
	f := &Family{Tables: m}
	if f.keep() == nil {
		t.Fatal("no error although a chain cannot be created")
	}
	m.refused = ""
	must.OK(t, f.keep())
	if m.names() != wantIPv4 {
		t.Errorf("%s, want %s", m.names(), wantIPv4)
	}
}

func TestMachineWithoutIptablesEndsTheDriver(t *testing.T) {
	d := New(Options{Families: func() ([]Family, error) { return nil, exec.ErrNotFound }})
	must.OK(t, d.Run(t.Context()))
}

// stuck is a program that does not end.
type stuck struct {
	memory
	started chan bool
}

func (s *stuck) ChainExists(string, string) (bool, error) {
	s.started <- true
	select {}
}

func TestProgramsThatHangAreWaitedForOnce(t *testing.T) {
	hangs, now := &stuck{started: make(chan bool, 10)}, make(chan time.Time)
	close(now)
	d := New(Options{After: func(time.Duration) <-chan time.Time { return now }})
	s := &state{}
	var first chan error
	for n := range 3 {
		d.within(t.Context(), &Family{Name: "IPv4", Tables: hangs}, s)
		if s.reported != "iptables does not respond" {
			t.Errorf("reported is %q", s.reported)
		}
		if n == 0 {
			first = s.under
		}
		if s.under != first {
			t.Error("further programs were started beside those that hang")
		}
	}
	<-hangs.started
}
