// Package corpus measures a directory of manifests that others wrote: how many of them a node without a cluster
// accepts, what keeps the others out, most first, and how many of those it accepts run. `make corpus` prints it; with
// RUN=1 the pods run on the containerd of a lab, with their images replaced. The directory stays where it is. Start
// reading at Read.
package corpus
