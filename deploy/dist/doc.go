// Command dist builds what a release consists of (`make dist`), into a directory: for amd64 and arm64 the static
// binary, a deb, an rpm and an SBOM, and for both together an OCI image and SHA256SUMS. From the same commit, with the
// same Go, each file is the same byte by byte.
//
//	binary -> `journalet commands` -> man pages     \
//	       -> `journalet completion` -> completions  > deb, rpm
//	deploy/systemd, files, licences of the modules  /
//
// It is a module of its own, so that the agent's has none of its libraries, and imports nothing of the agent. Start
// reading at main.go; contents.go has the table of the files in a package. docs/adr/091-packages.md has the reasons.
package main
