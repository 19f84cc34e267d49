// Command lab starts a cluster of package cluster that outlasts it, joins nodes to it, and stops it: for `make
// cluster`, scripts and people. Start reading at run.
package main
