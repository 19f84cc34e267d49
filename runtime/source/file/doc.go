// Package file is the driver of the static pod directory: it watches a directory of pod manifests, or a single file,
// and emits facts with the changed files. It decides nothing: the source's actor (actors/source) decides which pods
// run, which of two pods with one name wins, and what a broken file means for its pods. Its cost depends on the
// changes: after a notification it reads the changed files, and the reread stats all files and reads those with another
// stamp. As in the kubelet, a missing path and an empty directory have no pods; a path that cannot be read removes
// none. Start reading at Run in driver.go; scan.go lists the files, read.go reads one file, watch.go is inotify, and
// handover.go compares and emits.
package file
