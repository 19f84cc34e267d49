package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// measureFloor does the same work by CRI calls alone, with -raw workers and without an agent.
func (c *client) measureFloor() {
	pods := c.rawBurst()
	if wanted("reaction") {
		c.rawReaction(pods)
	}
	if wanted("idle") {
		c.idle(nil)
	}
	if wanted("teardown") {
		c.rawTeardown(pods)
	}
	c.wipe()
	if wanted("init") {
		c.rawInits()
	}
}

// rawBurst times a burst like the burst of an agent, with as many runtime calls for the measurement.
func (c *client) rawBurst() []rawRef {
	pods := make([]rawRef, *n)
	t0 := time.Now()
	var starting sync.WaitGroup
	starting.Go(func() {
		parallel(*n, func(i int) {
			var err error
			if pods[i], err = c.rawPod(i); err != nil {
				log.Print(err)
			}
		})
	})
	xs, ok := c.collect("raw-", *n, t0, nil)
	starting.Wait()
	kv := quant(xs)
	kv["workers"], kv["complete"] = *raw, ok
	out("burst_start_s", kv)
	return pods
}

func (c *client) rawReaction(pods []rawRef) {
	var xs []float64
	for i := range min(10, *n) {
		p := pods[i]
		_, err := call(c.rt.StopContainer, &cri.StopContainerRequest{ContainerId: p.main, Timeout: 0})
		if err != nil {
			log.Print(err)
			continue
		}
		t1 := time.Now()
		pods[i].main = c.rawContainer(p.box, p.cfg, "main", 1, mainCommand)
		if st, err := call(c.rt.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: pods[i].main}); err == nil {
			xs = append(xs, time.Unix(0, st.Status.StartedAt).Sub(t1).Seconds())
		}
	}
	out("death_to_restart_s", quant(xs))
}

func (c *client) rawTeardown(pods []rawRef) {
	t0 := time.Now()
	parallel(*n, func(i int) {
		_, err := call(c.rt.StopContainer, &cri.StopContainerRequest{ContainerId: pods[i].main, Timeout: 5})
		_, err2 := call(c.rt.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: pods[i].box})
		if err = errors.Join(err, err2); err != nil {
			log.Print(err)
		}
	})
	out("teardown_s", map[string]any{"total": r3(time.Since(t0).Seconds()), "complete": true})
}

// rawInits starts five pods at once, with three init containers in a row each.
func (c *client) rawInits() {
	var mu sync.Mutex
	var xs []float64
	t0 := time.Now()
	parallel(5, func(i int) {
		s, cfg, err := c.rawSandbox(9000 + i)
		if err != nil {
			log.Print(err)
			return
		}
		for j := range 3 {
			id := c.rawContainer(s, cfg, fmt.Sprintf("init%d", j), 0, []string{"true"})
			for {
				st, e := call(c.rt.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})
				if e != nil || st.Status.State == cri.ContainerState_CONTAINER_EXITED {
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
		c.rawContainer(s, cfg, "main", 0, mainCommand)
		mu.Lock()
		xs = append(xs, time.Since(t0).Seconds())
		mu.Unlock()
	})
	out("init_chain_3_s", quant(xs))
}

// parallel runs f(0..n-1) with -raw workers.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	jobs := make(chan int)
	for range *raw {
		wg.Go(func() {
			for i := range jobs {
				f(i)
			}
		})
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
}

type rawRef struct {
	box, main string
	cfg       *cri.PodSandboxConfig
}

func (c *client) rawSandbox(i int) (string, *cri.PodSandboxConfig, error) {
	p := fmt.Sprintf("raw-%04d", i)
	dir := os.TempDir() + "/journalet-bench-logs/" + p
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", nil, err
	}
	cfg := &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: p, Namespace: "default", Uid: p},
		LogDirectory: dir,
		Labels:       map[string]string{podNameLabel: p}, Linux: &cri.LinuxPodSandboxConfig{}}
	if c.like != nil {
		cfg = c.like.sandboxAs(cfg)
	}
	r, err := call(c.rt.RunPodSandbox, &cri.RunPodSandboxRequest{Config: cfg})
	if err != nil {
		return "", nil, err
	}
	return r.PodSandboxId, cfg, nil
}

func (c *client) rawContainer(s string, cfg *cri.PodSandboxConfig, nm string, attempt uint32, cmd []string) string {
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: nm, Attempt: attempt}, Image: &cri.ImageSpec{Image: *image},
		Command: cmd, LogPath: nm + ".log",
		Labels: map[string]string{podNameLabel: cfg.Metadata.Name}, Linux: &cri.LinuxContainerConfig{}}
	if c.like != nil {
		var err error
		if config, err = c.like.containerAs(config); err != nil {
			log.Print(err)
			return ""
		}
	}
	r, err := call(c.rt.CreateContainer, &cri.CreateContainerRequest{PodSandboxId: s, SandboxConfig: cfg, Config: config})
	if err != nil {
		log.Print(err)
		return ""
	}
	if _, err := call(c.rt.StartContainer, &cri.StartContainerRequest{ContainerId: r.ContainerId}); err != nil {
		log.Print(err)
	}
	return r.ContainerId
}

func (c *client) rawPod(i int) (rawRef, error) {
	s, cfg, err := c.rawSandbox(i)
	if err != nil {
		return rawRef{}, err
	}
	return rawRef{s, c.rawContainer(s, cfg, "main", 0, mainCommand), cfg}, nil
}
