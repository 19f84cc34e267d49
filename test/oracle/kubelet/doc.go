// Package kubelet is the other side of the oracle: the kubelet's own functions, called in process on a fake runtime.
// Where it exports none, its unexported ones are linked to by name; where a function is a method of the whole kubelet, one
// is put together of the parts that the method touches. Nothing here decides: a result is the kubelet's or it is
// missing. Start reading at kubelet.go (how one is put together) and decode.go (from a file to a pod).
package kubelet
