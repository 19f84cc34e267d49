package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"sort"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/measure"
)

// glob lists the manifests that the bench has written.
func glob() []string { g, _ := filepath.Glob(filepath.Join(*manifests, "pb-*.json")); return g }

var mainCommand = []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"}

func manifest(pod string, inits int) []byte { return manifestWith(pod, inits, nil) }

// manifestWith returns the manifest of a pod that mounts volumes.
func manifestWith(pod string, inits int, volumes []volume) []byte {
	main := map[string]any{"name": "main", "image": *image, "imagePullPolicy": "IfNotPresent",
		"command": mainCommand}
	spec := map[string]any{"containers": []any{main}, "terminationGracePeriodSeconds": 5, "restartPolicy": "Always"}
	if len(volumes) > 0 {
		var mounts []any
		for _, v := range volumes {
			mounts = append(mounts, map[string]any{"name": v["name"], "mountPath": fmt.Sprint("/", v["name"])})
		}
		main["volumeMounts"], spec["volumes"] = mounts, volumes
	}
	var ic []any
	for i := range inits {
		ic = append(ic,
			map[string]any{"name": fmt.Sprintf("init%d", i), "image": *image, "imagePullPolicy": "IfNotPresent",
				"command": []string{"true"}})
	}
	if ic != nil {
		spec["initContainers"] = ic
	}
	b, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": pod, "namespace": "default"}, "spec": spec})
	return b
}
func put(pod string, inits int) { putFile(pod, manifest(pod, inits)) }

func putFile(pod string, manifest []byte) {
	tmp := filepath.Join(*manifests, ".tmp-"+pod)
	if err := errors.Join(os.WriteFile(tmp, manifest, 0o640),
		os.Rename(tmp, filepath.Join(*manifests, pod+".json"))); err != nil {
		die(err)
	}
}

// quant returns the quantiles and the count of the values; without values, only the count.
func quant(xs []float64) map[string]any {
	if len(xs) == 0 {
		return map[string]any{"count": 0}
	}
	sort.Float64s(xs)
	q := func(p float64) float64 {
		return math.Round(xs[int(p*float64(len(xs)-1))]*1000) / 1000
	}
	return map[string]any{"p50": q(.5), "p90": q(.9), "max": q(1), "count": len(xs)}
}
func r3(x float64) float64 { return math.Round(x*1000) / 1000 }

// collect waits until want pods with the prefix have a running main container that pred accepts (nil: any), and returns
// the time in seconds from t0 to each start.
func (c *client) collect(
	prefix string, want int, t0 time.Time, pred func(string, *cri.Container) bool,
) ([]float64, bool) {
	seen := map[string]float64{}
	for time.Since(t0) < *limit {
		for p, k := range c.running(prefix) {
			if _, ok := seen[p]; ok || pred != nil && !pred(p, k) {
				continue
			}
			st, err := call(c.rt.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: k.Id})
			if err == nil && st.Status.StartedAt > 0 {
				seen[p] = time.Unix(0, st.Status.StartedAt).Sub(t0).Seconds()
			}
		}
		if len(seen) >= want {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	var xs []float64
	for _, v := range seen {
		xs = append(xs, v)
	}
	return xs, len(xs) >= want
}

func (c *client) burst(a *agent) {
	c0, t0, s0 := a.cpu(), time.Now(), c.syncs()
	for i := range *n {
		put(fmt.Sprintf("pb-%03d", i), 0)
	}
	xs, ok := c.collect("pb-", *n, t0, nil)
	kv := quant(xs)
	kv["complete"], kv["agent_cpu_s"], kv["rss_mib"] = ok, r3(a.cpu()-c0), r3(a.rss())
	if c.disk != nil {
		kv["syncs"] = c.syncs() - s0
	}
	out("burst_start_s", kv)
	time.Sleep(5 * time.Second)
}

// reaction stops main containers as another CRI client, and times each one's restart.
func (c *client) reaction(a *agent) {
	var xs []float64
	before := c.running("pb-")
	i := 0
	for p, k := range before {
		if i++; i > 10 {
			break
		}
		t0 := time.Now()
		_, err := call(c.rt.StopContainer, &cri.StopContainerRequest{ContainerId: k.Id, Timeout: 0})
		if err != nil {
			log.Print(err)
			continue
		}
		t1 := time.Now()
		got, _ := c.collect(p, 1, t0, func(_ string, n *cri.Container) bool { return n.Id != k.Id })
		for _, g := range got {
			xs = append(xs, g-t1.Sub(t0).Seconds())
		}
		time.Sleep(137 * time.Millisecond)
	}
	out("death_to_restart_s", quant(xs))
}

// settle is the time for the runtime to settle before its idle CPU is measured.
const settle = 10 * time.Second

// idle measures an agent with all pods running and nothing to do. A nil agent measures the runtime alone.
func (c *client) idle(a *agent) {
	time.Sleep(settle)
	usage := func() (agent, runtime, shims float64) {
		if a != nil {
			agent = a.cpu()
		}
		if *rtpid > 0 {
			runtime, shims = cpuOf(*rtpid), measure.Shims(*endpoint)
		}
		return agent, runtime, shims
	}
	millicores := func(begin, end float64) float64 { return r3((end - begin) / idle.Seconds() * 1000) }
	a0, r0, s0 := usage()
	time.Sleep(*idle)
	a1, r1, s1 := usage()
	kv := map[string]any{}
	if a != nil {
		kv["cpu_millicores"], kv["rss_mib"] = millicores(a0, a1), r3(a.rss())
	}
	if *rtpid > 0 {
		kv["runtime_millicores"], kv["shim_millicores"] = millicores(r0, r1), millicores(s0, s1)
	}
	out("idle", kv)
}

// restart kills the agent, adds one pod, starts the agent again and times that pod. It counts replaced containers, of
// which there may be none.
func (c *client) restart(a *agent) {
	before := c.running("pb-")
	a.stop()
	put("pb-after-restart", 0)
	t0 := time.Now()
	*a = *start(a.args)
	xs, ok := c.collect("pb-after-restart", 1, t0, nil)
	time.Sleep(5 * time.Second)
	after, replaced := c.running("pb-"), 0
	for p, k := range before {
		if q := after[p]; q == nil || q.Id != k.Id {
			replaced++
		}
	}
	kv := quant(xs)
	kv["complete"], kv["containers_before"], kv["containers_replaced"] = ok, len(before), replaced
	out("restart_to_new_pod_s", kv)
}

func (c *client) teardown(a *agent) {
	c0, t0 := a.cpu(), time.Now()
	clearManifests()
	ok := c.waitGone("pb-", time.Now().Add(*limit))
	out("teardown_s",
		map[string]any{"total": r3(time.Since(t0).Seconds()), "complete": ok, "agent_cpu_s": r3(a.cpu() - c0)})
	time.Sleep(3 * time.Second)
}

// initLimit bounds the chain of init containers. An agent that takes longer does not support them.
const initLimit = 15 * time.Second

// initChain times pods with init containers. It prints no result if none of them runs: the agent does not support them.
func (c *client) initChain(*agent) {
	t0 := time.Now()
	for i := range 5 {
		put(fmt.Sprintf("pb-init-%d", i), 3)
	}
	wait := *limit
	*limit = min(wait, initLimit)
	xs, ok := c.collect("pb-init-", 5, t0, nil)
	*limit = wait
	if len(xs) == 0 {
		return
	}
	kv := quant(xs)
	kv["complete"] = ok
	out("init_chain_3_s", kv)
}
