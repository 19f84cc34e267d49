// Package manifest turns the bytes of a manifest into pods that are ready to run: it reads YAML and JSON strictly,
// applies the rules of static pods and the API server's defaults once, validates, and refuses by name what this
// version does not carry out. It is pure: no file, network, clock or goroutine, and nothing that changes between two
// calls with the same arguments; reading files and noticing changes is the business of its callers. Every complaint
// is a [Problem] with the line in the author's own file. Start reading at [Decode] in decode.go, then follow one
// document through tree.go (what is written where), shape.go (does it fit the types), supported.go (do we carry it
// out), static.go and default.go (what is added), the validate files and canonical.go (the bytes that are hashed).
package manifest
