package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
)

var (
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	// own are tools that busybox's shell would be itself, and that lack options there.
	own = regexp.MustCompile(`\bnc -`)
)

func main() {
	shell := "/bin/busybox"
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !identifier.MatchString(name) {
			shell = "/bin/bash"
		}
	}
	if own.MatchString(strings.Join(os.Args, " ")) {
		shell = "/bin/bash"
	}
	if os.Args[0] == "" || strings.HasSuffix(os.Args[0], "busybox") {
		os.Args[0] = "sh"
	}
	err := syscall.Exec(shell, os.Args, os.Environ()) //nolint:gosec // that is what it is for
	fmt.Fprintf(os.Stderr, "sh: %s: %v\n", shell, err)
	os.Exit(127)
}
