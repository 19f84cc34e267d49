// Package images builds the images that Kubernetes' end-to-end tests of a node pull, and serves them to a lab as the
// registries of their names. Programs are Kubernetes' own, but for a CSI driver, its registrar and its probe; the rest
// of their file systems is the lab's busybox and Debian's static bash; the images' labels call it a stand-in. Start
// reading at Serve, then set.go.
package images
