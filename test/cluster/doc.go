// Package cluster is a control plane of Kubernetes for tests: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler as processes of this machine, with certificates, kubeconfigs and the permissions that TLS bootstrap
// needs. Nodes join it by the kubeconfigs that it writes: this agent, or the kubelet of the same release beside it.
//
// The programs are built from the module in upstream, once a version of it, into the user's cache directory
// (programs.go). cluster.go starts and stops them, flags.go has their command lines, process.go their processes,
// pki.go and kubeconfig.go the identities, grants.go what these may do, node.go the node agents, network.go machines of
// their own for these, addons.go kube-proxy and a DNS server. Command lab does the same for a person. Nothing but tests
// may import it. Start reading at Start, tests at Up.
package cluster
