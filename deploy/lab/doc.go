// Package lab holds the test of what lab.sh decides without root: which containerd a lab runs. All else of lab.sh is
// tested by the integration and chaos tests, which run on a lab. Start reading at lib/variant.sh.
package lab
