// Command crio-load puts the images of lab.sh into the storage of the lab's CRI-O, which has no command for it. It is
// built beside that CRI-O, from the same libraries, so that both write one format. CRI-O may run meanwhile: the two
// lock the storage, and CRI-O finds the image the next time it looks.
package main
