package iptables

import "fmt"

// Names of tables and chains, as in the kubelet.
const (
	mangle, nat, filter = "mangle", "nat", "filter"

	hintChain     = "KUBE-IPTABLES-HINT"
	firewallChain = "KUBE-FIREWALL"
	// canaryChain is empty. Who removes all rules removes it, too.
	canaryChain = "KUBE-KUBELET-CANARY"
)

// dropRule drops what is addressed to this machine's 127.0.0.0/8 and does not come from it. kube-proxy has the same
// rule, and both must find the other's.
var dropRule = []string{
	"-m", "comment", "--comment", "block incoming localnet connections", "--dst", "127.0.0.0/8", "!", "--src",
	"127.0.0.0/8", "-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP",
}

// keep creates what is missing. While the canary is there it runs one program.
func (f *Family) keep() error {
	if ok, err := f.Tables.ChainExists(mangle, canaryChain); err != nil || ok {
		return err
	}
	if err := f.create(); err != nil {
		return err
	}
	// The canary of the table that is checked comes last: what failed before is tried again.
	for _, table := range []string{nat, filter, mangle} {
		if err := f.chain(table, canaryChain); err != nil {
			return err
		}
	}
	return nil
}

// create creates the chains and rules that others rely on.
func (f *Family) create() error {
	if err := f.chain(mangle, hintChain); err != nil || f.IPv6 {
		return err // 127.0.0.0/8 is of IPv4
	}
	if err := f.chain(filter, firewallChain); err != nil {
		return err
	}
	for _, from := range []string{"OUTPUT", "INPUT"} {
		if err := f.Tables.InsertUnique(filter, from, 1, "-j", firewallChain); err != nil {
			return fmt.Errorf("lead %s to %s: %w", from, firewallChain, err)
		}
	}
	if err := f.Tables.AppendUnique(filter, firewallChain, dropRule...); err != nil {
		return fmt.Errorf("add the rule of %s: %w", firewallChain, err)
	}
	return nil
}

// chain creates a chain if it is missing.
func (f *Family) chain(table, name string) error {
	ok, err := f.Tables.ChainExists(table, name)
	if err == nil && !ok {
		err = f.Tables.NewChain(table, name)
	}
	if err != nil {
		return fmt.Errorf("create the chain %s of table %s: %w", name, table, err)
	}
	return nil
}
