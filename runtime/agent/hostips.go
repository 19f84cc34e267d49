package agent

import "errors"

// errNoHostIP means that the Node is known and has no address: a cloud controller has not set one yet.
var errNoHostIP = errors.New("host IP unknown: the Node has no address yet; the cloud controller sets it, " +
	"or --node-ip")

// nodeIPs returns the addresses that pods get as the node's, the primary one first: in a cluster the Node's, as by
// a kubelet, without one, and as long as the Node is not known, the machine's.
func (a *agent) nodeIPs() ([]string, error) {
	if a.cluster == nil {
		return a.facts.HostIPs, nil
	}
	ips, known := a.cluster.node.HostIPs()
	switch {
	case !known:
		return a.facts.HostIPs, nil
	case len(ips) == 0:
		return nil, errNoHostIP
	}
	return ips, nil
}

// hostIPs returns nodeIPs or, where the Node has none, the machine's: by them a pod on the node's network is reached.
func (a *agent) hostIPs() []string {
	if ips, err := a.nodeIPs(); err == nil {
		return ips
	}
	return a.facts.HostIPs
}
