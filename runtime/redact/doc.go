// Package redact takes out of a text what may be a credential: values that the pod's manifest holds, and the user and
// query of URLs. The errors of a runtime, a registry or a probe repeat such values, and errors become events, which
// observers, logs and traces show, while manifests are for few (ARCHITECTURE, Secrets).
//
// It is pure, and errs on the side of the reader: names, images, paths and programs stay, since they are often what is
// wrong.
package redact
