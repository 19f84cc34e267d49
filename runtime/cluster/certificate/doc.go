// Package certificate has the agent's certificates: the client certificate that identifies it to the API server, and
// the serving certificate of its server (ADR 053).
//
// A Manager keeps one of them. It requests a certificate by a CertificateSigningRequest, stores it with its key as the
// kubelet does, and requests the next one before it expires. Private keys are in files of mode 0600 and nowhere else.
//
// Start at manager.go. bootstrap.go decides which credentials a start begins with.
package certificate
