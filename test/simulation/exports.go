package simulation

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"
)

// NFS volumes. Mounting is a model, as all work on the node's disk is; what is judged is what the agent does with
// servers that are away.

const (
	// exportVolume is the name of the NFS volume of a pod.
	exportVolume = "export"
	// mountWithin and unmountWithin are how long the agent waits for mount(8) and umount(8).
	mountWithin, unmountWithin = 130 * time.Second, time.Minute
	// helperWithin is how long mount.nfs tries by itself.
	helperWithin = 2 * time.Minute
)

// Exported returns the plan of a seed where some pods have NFS volumes, whose servers are away now and then.
func Exported(seed uint64) *Plan {
	p := PlanOf(seed)
	r := stream(seed, "plan of exports")
	for i, o := range p.Ops {
		if o.Kind == "write" && !chance(r, 3) {
			p.Ops[i].body = withExport(o.body)
		}
	}
	for at := between(r, 0, time.Minute); at < p.end; at += between(r, 10*time.Second, 4*time.Minute) {
		p.Ops = append(p.Ops, Op{At: at, Kind: "servers are away", lasts: between(r, time.Second, 5*time.Minute)})
	}
	p.inOrder()
	return p
}

// withExport returns the manifest of a pod with an NFS volume that its containers mount; what is no pod stays.
func withExport(body []byte) []byte {
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	spec, _ := m["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, map[string]any{
		"name": exportVolume, "nfs": map[string]any{"server": "files.example.com", "path": "/data"},
	})
	all, _ := spec["containers"].([]any)
	for _, c := range all {
		if c, ok := c.(map[string]any); ok {
			mounts, _ := c["volumeMounts"].([]any)
			c["volumeMounts"] = append(mounts, map[string]any{"name": exportVolume, "mountPath": "/export"})
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return out
}

// exports are the NFS volumes of a node.
type exports struct {
	// awayUntil is the uptime until which servers do not answer.
	awayUntil time.Duration
	// points has the directories at which exports are mounted, or are to be, by UID. A mount that ends when its directory
	// is gone fails.
	points map[string]bool
	// helpers are the processes of mount(8) of an agent that was killed.
	helpers []*event
}

func (s *sim) hangMounts(o Op) { s.world.files.hungUntil = s.clock.uptime + o.lasts }

func (s *sim) takeServersAway(o Op) { s.world.files.exports.awayUntil = s.clock.uptime + o.lasts }

// mountExport mounts an export for a pod, and returns why it cannot. While servers are away it waits. Its process
// survives an agent that is killed, and may mount the export after that.
func (d disk) mountExport(uid string) (problem string) {
	n, c := d.run.world.files, d.run.clock
	n.exports.points[uid] = true
	begun := c.uptime
	for c.uptime < n.exports.awayUntil {
		wait := n.exports.awayUntil - c.uptime
		left := begun + mountWithin - c.uptime
		if left <= 0 {
			return "the server does not answer within 2m10s"
		}
		helper := c.after(nil, wait, func() {
			if c.uptime < begun+helperWithin && n.exports.points[uid] && n.disk[uid] != nil {
				n.disk[uid][exportVolume] = "set up"
			}
		})
		n.exports.helpers = append(n.exports.helpers, helper)
		c.current.sleep(min(wait, left)) // here the agent may be killed
		helper.cancel()
		n.exports.helpers = slices.DeleteFunc(n.exports.helpers, func(e *event) bool { return e == helper })
	}
	return ""
}

// unmountExport unmounts the export of a pod. While servers are away it waits, and then forces it.
func (d disk) unmountExport(uid string) {
	n, c := d.run.world.files, d.run.clock
	if n.disk[uid][exportVolume] != "" && c.uptime < n.exports.awayUntil {
		c.current.sleep(min(n.exports.awayUntil-c.uptime, unmountWithin))
	}
}

// reboot ends all processes and mounts.
func (x *exports) reboot(disk map[string]map[string]string) {
	for _, h := range x.helpers {
		h.cancel()
	}
	x.helpers = nil
	for _, volumes := range disk {
		delete(volumes, exportVolume)
	}
}

// exportsPlan has pods with and without NFS volumes started on a node that starts one pod after the other, while the
// servers are away for as long as the plan lasts.
func exportsPlan(r *rand.Rand, seed uint64, pods int) *Plan {
	p := &Plan{Seed: seed, end: 10 * time.Minute}
	p.config = config{
		files: 2 * pods, concurrency: 1, pulls: 1, maxPods: 200, maxBackOff: time.Second, cpu: 1 << 20, memory: 1 << 42,
	}
	p.Ops = append(p.Ops, Op{Kind: "servers are away", lasts: time.Hour})
	for i := range 2 * pods {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		body := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{` +
			`"volumes":[{"name":"data","emptyDir":{}}],"containers":[{"name":"main","image":"app:1"}]}}`)
		if i%2 == 0 {
			body = withExport(body)
		}
		p.Ops = append(p.Ops, Op{At: between(r, time.Second, time.Minute), Kind: "write", file: name + ".json", body: body})
	}
	p.inOrder()
	return p
}
