// Package kubelet is the other side of the oracle: the kubelet's own functions, called in process on a fake runtime. It
// links to unexported functions by name. For methods of the whole kubelet, it assembles one from the parts that the
// methods use. It decides nothing: each result is the kubelet's. Start reading at kubelet.go (the assembly) and
// decode.go (from a file to a pod).
package kubelet
