// Package iptables keeps the chains that other components of a cluster expect of a kubelet: KUBE-IPTABLES-HINT, which
// shows them which iptables this machine uses, and KUBE-FIREWALL, which drops what comes from outside for 127.0.0.0/8
// (kubernetes issue 90259). It decides nothing, and records nothing.
//
// Begin with driver.go; tables.go runs the programs.
package iptables
