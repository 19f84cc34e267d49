// Package systemd has the unit of the agent and the file with its flags, for `journalet install`. Packages take them
// from this directory, too (deploy/dist).
package systemd

import _ "embed" // the files

var (
	// Unit is journalet.service, for the program in /usr/local/bin.
	//
	//go:embed journalet.service
	Unit []byte
	// Flags is the file with the agent's flags that the unit reads, with none of them.
	//
	//go:embed journalet.default
	Flags []byte
)
