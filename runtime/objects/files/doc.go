// Package files is the backing of the store of objects without an API server: ConfigMaps, Secrets and trust bundles in
// the files of a directory, such as the directory of pod manifests, and tokens in files of their own. It reads nothing
// while no pod refers to an object. Start reading at backing.go.
package files
