package main

import (
	"context"
	"errors"
	"log"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podNameLabel is the kubelet's label with a container's pod.
const podNameLabel = "io.kubernetes.pod.name"

// call makes one call of the runtime, which has a minute.
func call[Req, Resp any](method func(context.Context, *Req, ...grpc.CallOption) (*Resp, error), req *Req) (*Resp, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return method(ctx, req)
}

func (c *client) containers() []*cri.Container {
	r, err := call(c.rt.ListContainers, &cri.ListContainersRequest{})
	if err != nil {
		log.Print(err)
		return nil
	}
	return r.Containers
}

// running returns the running main containers of pods with the prefix, by pod.
func (c *client) running(prefix string) map[string]*cri.Container {
	m := map[string]*cri.Container{}
	for _, k := range c.containers() {
		p := k.Labels[podNameLabel]
		if k.State == cri.ContainerState_CONTAINER_RUNNING && strings.HasPrefix(p, prefix) && k.Metadata.Name == "main" {
			m[p] = k
		}
	}
	return m
}
func (c *client) sandboxes(prefix string) (ready int) {
	r, err := call(c.rt.ListPodSandbox, &cri.ListPodSandboxRequest{})
	if err != nil {
		return -1
	}
	for _, s := range r.Items {
		if strings.HasPrefix(s.Metadata.Name, prefix) && s.State == cri.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	return
}
func (c *client) waitGone(prefix string, until time.Time) bool {
	for time.Now().Before(until) {
		if c.sandboxes(prefix) == 0 {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}
func (c *client) wipe() {
	r, _ := call(c.rt.ListPodSandbox, &cri.ListPodSandboxRequest{})
	if r == nil {
		return
	}
	var wg sync.WaitGroup
	sem := make(chan int, 8)
	for _, s := range r.Items {
		wg.Add(1)
		sem <- 1
		go func() {
			defer func() { <-sem; wg.Done() }()
			_, err := call(c.rt.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: s.Id})
			_, err2 := call(c.rt.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: s.Id})
			if err = errors.Join(err, err2); err != nil {
				log.Print(err)
			}
		}()
	}
	wg.Wait()
}

// syncs returns how many syncs the slow disk has delayed.
func (c *client) syncs() int64 {
	if c.disk == nil {
		return 0
	}
	return c.disk.Syncs()
}
