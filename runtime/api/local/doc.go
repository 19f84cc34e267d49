// Package local is the kubelet server's door for people on this machine: a unix socket, and the client's side of it.
// The permissions of the socket say who may connect, and the kernel says who did (SO_PEERCRED). It knows no path and no
// pod: what is served behind the door is runtime/api/kubelet. Start reading at listen.go; peer.go has the identity.
package local
