// Package validate reports how the agent would take manifests, without a node: the problems that refuse a pod, the
// warnings, and what can be known of several files only together, such as two pods of one name or a ConfigMap that no
// file has. It decodes with package manifest as the sources do, runs nothing and changes nothing. Start reading at
// Check in check.go; read.go lists and reads the files, together.go compares them.
package validate
