// Command images writes the lab's two container images, busybox and pause, as docker-archive files of static
// binaries of this machine, so that a lab needs no registry. It uses no network and no runtime: lab.sh imports what it
// writes. The same binaries always give the same bytes, hence the same digests.
// Start reading at main, then layer.go for what an image contains.
package main
