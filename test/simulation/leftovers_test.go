package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// leftoversPlan has containers die and restart, and pods come and go, while agent and runtime are killed. Then every
// file of a pod is removed.
func leftoversPlan(seed uint64, restarts, deleted int) *Plan {
	const resident, settle = 40, 30 * time.Minute
	p := &Plan{Seed: seed}
	p.config = config{
		files: resident, concurrency: 8, pulls: 4, maxPods: 200, maxBackOff: time.Second, mishaps: 300,
		cpu: 1 << 20, memory: 1 << 42,
	}
	r := stream(seed, "plan of leftovers")
	last := time.Duration(restarts) * 550 * time.Millisecond
	add := func(at time.Duration, kind, file string, body []byte) {
		p.Ops = append(p.Ops, Op{At: at, Kind: kind, file: file, body: body, pick: r.Uint64(), lasts: 100 * time.Millisecond})
	}
	for i := range resident {
		name := fmt.Sprintf("stays%d", i)
		add(between(r, 0, time.Minute), "write", name+".json", []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod",`+
			`"metadata":{"name":%q},"spec":{"restartPolicy":"Always","volumes":[{"name":"data","emptyDir":{}}],"containers":[`+
			`{"name":"main0","image":"app:1","volumeMounts":[{"name":"data","mountPath":"/data"}]},`+
			`{"name":"main1","image":"app:1"}]}}`, name)))
		add(last, "remove", name+".json", nil)
	}
	for i := range deleted {
		name := fmt.Sprintf("goes%d", i)
		at := between(r, time.Minute, last-2*time.Minute)
		add(at, "write", name+".json", manifestOf(r, name, ""))
		add(at+between(r, time.Second, 2*time.Minute), "remove", name+".json", nil)
	}
	for at := time.Minute; at < last; at += between(r, 100*time.Millisecond, 700*time.Millisecond) {
		add(at, "a container dies", "", nil)
	}
	for at := time.Minute; at < last; at += between(r, time.Minute, 5*time.Minute) {
		add(at, pick(r, "kill the agent", "kill the agent", "kill the agent", "kill the runtime", "a sandbox dies"), "", nil)
	}
	for at := time.Minute; at < last; at += time.Minute {
		add(at, "snapshot", "", nil)
	}
	slices.SortStableFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Ops {
		p.Ops[i].N = i
	}
	p.end = last + settle
	return p
}

// TestNothingIsLeftAfterRestartsAndDeletedPods counts what 10,000 restarts and 1,000 deleted pods leave on the runtime
// and on the disk.
func TestNothingIsLeftAfterRestartsAndDeletedPods(t *testing.T) {
	const restarts, deleted = 10000, 1000
	r := Run(leftoversPlan(1, restarts, deleted), Options{Only: []string{noActorFails, filesOfInstances}, NoEnd: true})
	if r.Violation != nil {
		t.Fatal(r.Report())
	}
	if again := r.Instances - deleted; again < restarts {
		t.Errorf("only about %d restarts", again)
	}
	for _, o := range r.sim.world.objects {
		if !o.empty() {
			t.Errorf("of pod %s, %d sandboxes and %d containers are on the runtime", o.uid, len(o.sandboxes), len(o.containers))
		}
	}
	for uid, volumes := range r.sim.world.files.disk {
		t.Errorf("the directory of pod %s is left, with %d volumes", uid, len(volumes))
	}
	for uid, files := range r.sim.world.files.instances {
		t.Errorf("%d files of instances of pod %s are left", len(files), uid)
	}
	t.Logf("%d containers started, %d records, %d runs of the agent in %s", r.Instances, r.Records, r.Runs, r.Virtual)
}
