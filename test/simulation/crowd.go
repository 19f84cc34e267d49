package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// crowd gives some plans a small node and more pods than fit, of many priorities, each with large requests.
// Preemption and waiting for it are most of what happens there.
func (p *Plan) crowd(r *rand.Rand) {
	if !chance(r, 6) {
		return
	}
	if p.config.cpu == largeCPU {
		p.smallNode(r)
	}
	write := func(at time.Duration, i int) {
		p.Ops = append(p.Ops,
			Op{At: min(at, p.end), Kind: "write", file: fmt.Sprintf("c%d.json", i), body: crowdingPod(r, i)})
	}
	n := 6 + r.IntN(14)
	for i := range n {
		write(between(r, 0, pick(r, 10*time.Second, 2*time.Minute, p.end)), i)
	}
	for range 2 * n {
		at, i := between(r, 20*time.Second, p.end), r.IntN(n)
		switch r.IntN(6) {
		case 5:
			// A pod comes, goes and comes again as another one before the node has decided.
			p.Ops = append(p.Ops, Op{At: at, Kind: "the node's actor is slow", lasts: between(r, time.Second, 4*time.Second)})
			write(at, i)
			p.Ops = append(p.Ops,
				Op{At: min(at+between(r, 100*time.Millisecond, 500*time.Millisecond), p.end), Kind: "remove",
					file: fmt.Sprintf("c%d.json", i)})
			write(at+between(r, 500*time.Millisecond, time.Second), i)
		case 0, 1:
			p.Ops = append(p.Ops, Op{At: at, Kind: "remove", file: fmt.Sprintf("c%d.json", i)})
		case 2:
			p.Ops = append(p.Ops, Op{At: at, Kind: "resize", pick: r.Uint64()})
		default:
			// Now and then it changes while its admission is pending.
			write(at, i)
			if chance(r, 3) {
				write(at+between(r, 0, 20*time.Millisecond), i)
			}
		}
	}
}

// crowdingPod returns a pod of one or two containers and any QoS class, often with a UID of its own, so that it can
// be updated.
func crowdingPod(r *rand.Rand, i int) []byte {
	meta := fmt.Sprintf(`"name":"c%d"`, i)
	if i%3 > 0 {
		meta += fmt.Sprintf(`,"uid":"crowd-%d"`, i)
	}
	spec := []string{fmt.Sprintf(`"restartPolicy":%q`, pick(r, "Always", "Always", "OnFailure", "Never"))}
	if !chance(r, 4) {
		spec = append(spec, fmt.Sprintf(`"priority":%d`, pick(r, -5, 10, 10, 1000, 100_000, critical)))
	}
	if chance(r, 2) {
		spec = append(spec, fmt.Sprintf(`"terminationGracePeriodSeconds":%d`, pick(r, 0, 1, 5, 30)))
	}
	var mains []string
	for n := range 1 + r.IntN(2) {
		c := fmt.Sprintf(`"name":"main%d","image":%q`, n, pick(r, "app:1", "app:1", "app:2", "gone:1"))
		if !chance(r, 5) {
			cpu, memory := 300+r.IntN(3000), 500+r.IntN(6000)
			has := fmt.Sprintf(`{"cpu":"%dm","memory":"%dMi"}`, cpu, memory)
			c += `,"resources":` + pick(r, `{"requests":`+has+`}`, `{"limits":`+has+`}`, `{"requests":`+has+`,"limits":`+has+`}`)
			c += `,"resizePolicy":` + resizePolicyOf(r)
		}
		mains = append(mains, "{"+c+"}")
	}
	spec = append(spec, `"containers":[`+strings.Join(mains, ",")+`]`)
	return []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{` + meta + `},"spec":{` + strings.Join(spec, ",") + `}}`)
}

// critical is the least priority that preempts others for a resize, too (API: SystemCriticalPriority).
const critical = 2_000_000_000
