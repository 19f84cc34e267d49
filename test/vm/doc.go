// Package vm runs the agent under the unit that we ship, on a machine of its own: Debian with systemd, cgroup v2,
// AppArmor and logind, emulated by QEMU. Its tests show what no container and no lab can: that systemd restarts an
// agent that hangs, and for nothing else, that pods run in slices, and that a shutdown waits for them.
//
// The tests are built only with the tag "vm" and need root, QEMU and debootstrap, which image.sh installs. `make vm`
// runs them at full length, `make vm-short` as part of `make test`. Emulation needs no /dev/kvm and is some five times
// slower than this machine, so nothing is measured here. Nothing may import this package. Start reading at
// node_test.go.
package vm
