// Package fakekubelet serves the kubelet's paths of pods and sessions on a socket, for tests of the commands that use
// them. Its containers are processes of this machine, and the ports of its pods are those of this machine. The protocol
// is that of k8s.io/cri-streaming, as in a container runtime.
package fakekubelet
