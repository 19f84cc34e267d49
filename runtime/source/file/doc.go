// Package file is the driver of the static pod folder: it notices what changes in a folder, or in a single file, of pod
// manifests, and hands over what differs from the last time. It decides nothing: which pods run, which of two twins wins
// and what a broken file means for the pods it held is the source actor's business (actors/source). Cost follows change:
// a notification makes it read the files it names, and the reread stats all files and reads those that look different.
// A missing path and an empty folder are the empty set, as for the kubelet; a path that cannot be read takes nothing
// away. Start reading at Run in driver.go; scan.go finds out what there is, read.go reads one file, watch.go is inotify,
// handover.go compares and tells.
package file
