// Package stream is the client of the agent's kubelet paths on its unix socket: the pods, plain requests, and sessions
// in pods (exec, attach, ports) over WebSocket, with SPDY for servers that know only that. k8s.io/client-go has the
// protocols; this package gives them the socket, bounds and deadlines. It prints nothing and knows no terminal.
//
// Start with client.go.
package stream
