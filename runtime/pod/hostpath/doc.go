// Package hostpath checks that paths of the node are what manifests say that they are, and creates them where these ask
// for it. It may not remove anything, and mounts nothing.
package hostpath
