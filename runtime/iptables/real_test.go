//go:build integration

package iptables

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// TestChainsOfAMachine needs root and iptables. It has a network namespace of its own.
func TestChainsOfAMachine(t *testing.T) {
	runtime.LockOSThread() // for ever: the thread ends with the test, and its namespace with the thread
	must.OK(t, unix.Unshare(unix.CLONE_NEWNET))
	families, err := Machine()
	must.OK(t, err)
	if len(families) != 2 {
		t.Fatalf("%d families, want 2; install iptables with ip6tables", len(families))
	}
	for _, f := range families {
		for range 2 {
			must.OK(t, f.keep())
		}
		for _, chain := range [][2]string{{mangle, hintChain}, {mangle, canaryChain}, {nat, canaryChain},
			{filter, canaryChain}} {
			if ok, err := f.Tables.ChainExists(chain[0], chain[1]); err != nil || !ok {
				t.Errorf("%s: no chain %v: %v", f.Name, chain, err)
			}
		}
		ok, err := f.Tables.ChainExists(filter, firewallChain)
		must.OK(t, err)
		if ok == f.IPv6 {
			t.Errorf("%s: the chain %s is there: %v", f.Name, firewallChain, ok)
		}
	}
	v4 := tables{"iptables"}
	for chain, rule := range map[string][]string{
		"INPUT": {"-j", firewallChain}, "OUTPUT": {"-j", firewallChain}, firewallChain: dropRule,
	} {
		if ok, err := v4.exists(filter, chain, rule...); err != nil || !ok {
			t.Errorf("no rule %v in %s: %v", rule, chain, err)
		}
		if err := v4.rule(filter, "-S", chain, "1"); err != nil {
			t.Errorf("%s has no rule: %v", chain, err)
		}
		if err := v4.rule(filter, "-D", chain, "2"); err == nil {
			t.Errorf("%s has another rule", chain)
		}
	}
}
