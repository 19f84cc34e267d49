// Package logs reads the log of one container instance: the file that the runtime writes in CRI's format, and those
// that were rotated from it, oldest first. It has the semantics of v1.PodLogOptions.
//
// A container that mounts the host's log directory may write anything there. So a log is opened within the pods' log
// directory, entry by entry, without following a link, and only if it is a regular file. A record of any length, a
// broken one, a file that shrinks and an archive that unpacks to more than its bound take constant memory, and hold up
// nothing that comes after them; what is left out is reported. It may not write, rename or remove: that is rotate's,
// below this package.
//
// Start reading at reader.go, then printer.go; follow.go has what happens at a rotation.
package logs
