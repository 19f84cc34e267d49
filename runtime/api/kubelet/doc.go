// Package kubelet serves the paths of the kubelet's server: pods, sessions in them, their logs and numbers, and the
// agent's own state. Paths, status codes and messages are the kubelet's.
//
// It is one handler for every door. A door adds who the client is (WithClient), and what the client may: the unix
// socket by its permissions (runtime/api/local), a port by TLS, authentication and authorization. Sessions are streamed
// by the packages of Kubernetes; the handler reads none of what a client types or sees. Start reading at kubelet.go,
// then session.go; stream.go has exec, attach and port-forward.
package kubelet
