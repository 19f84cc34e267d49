// Package clients serves APIs of gRPC to programs of the node, such as monitors of devices, on a socket of their own.
// Whatever a client does, it costs the agent a bounded amount: connections, requests, headers, and answers that nobody
// reads. Who may connect is the mode of the socket and of its directory.
//
// Start at server.go; conns.go and unread.go bound what clients may keep.
package clients
