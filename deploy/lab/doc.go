// Package lab holds the tests of what lab.sh decides without root: which runtime a lab runs, and whose programs. All
// else of lab.sh is tested by the integration and chaos tests, which run on a lab. Start reading at lib/runtime.sh and
// lib/variant.sh.
package lab
