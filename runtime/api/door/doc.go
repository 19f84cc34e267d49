// Package door is what both doors of the kubelet server have in common: a server that ends with all its connections,
// those too that a handler has taken over, and writes that end when a client reads no longer. Who may connect and how
// many is the door's. Start reading at http.go.
package door
