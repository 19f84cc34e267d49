// Package packages installs the deb of `make dist` on an emulated machine with systemd, upgrades, removes and purges it
// (ADR 091): no step ends a pod.
//
// The test is built only with the tag "vm", needs root and dpkg-deb, and is part of `make vm`. Nothing may import this
// package. Start reading at packages_test.go.
package packages
