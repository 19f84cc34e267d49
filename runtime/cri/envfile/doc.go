// Package envfile reads variables out of a file that a container has written, in the kubelet's subset of the shell's
// syntax (KEP-3721). It is pure.
package envfile
