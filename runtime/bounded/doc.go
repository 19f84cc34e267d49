// Package bounded reads what a container, a manifest, a URL or a peer can write, and removes what they leave behind. A
// file is read only if it is a regular one, and never beyond a limit that the caller names; no open blocks on a pipe or
// touches a device; a directory of any width is listed in constant memory; a tree of any depth is removed with a
// constant number of descriptors; aliases of YAML are charged before they are expanded. A directory that others write
// is held open and worked in without links (held.go). It is the only package that may use os.ReadFile and its kin:
// test/arch refuses them elsewhere. It knows nothing of pods. Start reading at read.go.
package bounded
