// Package secureport is the kubelet server's door for the cluster: port 10250 with TLS. A certificate or a token says
// who a client is; the API server says what it may do (SubjectAccessReview on nodes/<subresource>). It knows the names
// of the paths, for that, and nothing of what is behind them: that is runtime/api/kubelet.
//
// Nothing of it exists without a kubeconfig. Start at server.go; authenticate.go and authorize.go decide, attributes.go
// has the subresources, tls.go the certificates, listen.go the limits of connections (ADR 058).
package secureport
