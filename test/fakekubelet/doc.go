// Package fakekubelet serves the kubelet's paths of pods and sessions on a socket, for tests of the commands that use
// them. Its containers are processes of this machine, and the ports of its pods are ports of this machine. It uses the
// protocol of k8s.io/cri-streaming, as a container runtime does.
package fakekubelet
