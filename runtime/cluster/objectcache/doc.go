// Package objectcache keeps a small value of each object of a resource of the cluster, as a Reflector shows them. Who
// needs one waits for the first list, or gets what was kept of the last run while the API server is away (ADR 057).
// Services, classes and the periods of CSI drivers are its users. Start reading at objectcache.go; values.go bounds
// what is kept.
package objectcache
