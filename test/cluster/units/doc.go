// Command units stands in for the parts of systemd by which Kubernetes' tests of a node start, stop and restart the
// kubelet, on a machine without it. Links named systemd-run, systemctl and sudo lead to it. In the directory UNITS_DIR
// it keeps what it has started: a file of JSON for each unit. A command that it does not know is an error, so that a
// spec that needs more of systemd fails by name. Start reading at main.
package main
