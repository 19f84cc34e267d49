package simulation

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hostPort is a port of the node that a pod has: at one of the node's addresses, or at all.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

// everyIP stands for every address, as in the scheduler's and the kubelet's node ports.
const everyIP = "0.0.0.0"

// portsOf returns the host ports that a pod holds while it runs: the ports of its main containers and sidecars. Other
// init containers have ended when the main containers run.
func portsOf(m *corev1.Pod) []hostPort {
	if m == nil {
		return nil
	}
	var all []hostPort
	for _, list := range [][]corev1.Container{m.Spec.InitContainers, m.Spec.Containers} {
		for i := range list {
			if isInit(m, list[i].Name) && !isSidecar(&list[i]) {
				continue
			}
			for _, p := range list[i].Ports {
				if p.HostPort == 0 {
					continue
				}
				h := hostPort{p.Protocol, p.HostIP, p.HostPort}
				if h.protocol == "" {
					h.protocol = corev1.ProtocolTCP
				}
				if h.ip == "" {
					h.ip = everyIP
				}
				all = append(all, h)
			}
		}
	}
	return all
}

func (p hostPort) collides(q hostPort) bool {
	return p.protocol == q.protocol && p.port == q.port && (p.ip == q.ip || p.ip == everyIP || q.ip == everyIP)
}

// portsDistinct: no two running pods have the same host port.
func (j *judge) portsDistinct(o *objects) {
	mine := j.history(o.uid).ports
	if len(mine) == 0 {
		return
	}
	for _, x := range j.sim.world.objects {
		if x == o || !slices.ContainsFunc(x.containers, j.holdsPorts) {
			continue
		}
		for _, theirs := range j.history(x.uid).ports {
			if slices.ContainsFunc(mine, theirs.collides) {
				j.broken(onePort, o.uid, "it runs beside %s, which has %+v of %+v", j.sim.manifests.names[x.uid], theirs, mine)
			}
		}
	}
}

// hostPorts gives pods of some plans host ports of a few, so that they collide or nearly do.
func (p *Plan) hostPorts(r *rand.Rand) {
	if !chance(r, 4) {
		return
	}
	for i := range p.Ops {
		if chance(r, 2) && !bytes.Contains(p.Ops[i].body, []byte("hostPort")) {
			name := []byte(fmt.Sprintf(`{"name":%q,`, pick(r, "main0", "main0", "main0", "side0", "init0")))
			port := 9000 + r.IntN(3)
			ports := fmt.Sprintf(`"ports":[{"containerPort":%d,"hostPort":%d%s}],`, port, port,
				pick(r, "", "", `,"hostIP":"0.0.0.0"`, `,"hostIP":"127.0.0.1"`, `,"hostIP":"10.0.0.1"`, `,"protocol":"UDP"`))
			p.Ops[i].body = bytes.Replace(p.Ops[i].body, name, append(name, ports...), 1)
		}
	}
}

// holdsPorts reports whether a container keeps the host ports of its pod from others. After a lost journal a pod may
// end before it is inspected: then they are given to others while it runs.
func (j *judge) holdsPorts(c *container) bool {
	return c.alive() && (j.history(c.uid).holdsShare || !j.unrecorded(j.book.byID[c.id]))
}
