// Package machine boots a virtual machine and runs commands in it: Debian with systemd, cgroup v2, AppArmor, logind and
// containerd, emulated by QEMU. The tests of vm and vm/join share it. It is built with the tag "vm" and needs root. The
// machine's side is the command guest, what goes between the two the package wire. Start reading at Boot.
package machine
