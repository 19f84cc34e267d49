// Package downward is the downward API: fields of a pod and resources of its containers as text, for variables and for
// files of volumes. It is pure. Start reading at downward.go.
package downward
