// Package archive packs files of this machine into a tar stream for a container, and unpacks the stream of a container
// into one directory of this machine, whatever the container sends: no name leads out of the directory, no link is
// created or left by, no device is opened, and names, entries and zeros that nobody has sent are bounded.
//
// Unpack in unpack.go is the part that faces the container.
package archive
