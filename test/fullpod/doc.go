// Package fullpod fills fields of pods that hardly anybody sets: whatever a tenant writes there, others must not
// notice. Nothing but tests may import it. Start reading at Each.
package fullpod
