// Package manifest turns the bytes of a manifest into pods that are ready to run. It reads YAML and JSON strictly,
// applies the rules of static pods and the API server's defaults once, validates, and refuses unsupported fields by
// name. It is pure: no file, network, clock or goroutine, and equal arguments give equal results. Its callers read
// files and watch for changes. Every error is a [Problem] with the line in the author's file. Start reading at [Decode]
// in decode.go, then follow one document through tree.go (values with their lines), shape.go (the types), supported.go
// (supported fields), static.go and default.go (what is added), the validate files and canonical.go (the hashed bytes).
package manifest
