package pleg

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
)

// tooLarge reports whether a list was larger than a message may be. Then it is requested in parts, so that a few large
// pods hide no others.
func tooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// listSandboxes lists all sandboxes. In parts, these are the sandboxes of the pods that PLEG knows.
func (p *PLEG) listSandboxes(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	resp, err := p.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if !tooLarge(err) {
		return resp.GetItems(), err
	}
	p.log.Warn("the list of all sandboxes is larger than a message may be; listing them by pod", "error", err)
	p.mu.Lock()
	uids := slices.Sorted(maps.Keys(p.pods))
	p.mu.Unlock()
	var all []*runtimeapi.PodSandbox
	for _, uid := range uids {
		resp, err := p.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{cri.LabelPodUID: uid}},
		})
		if err != nil && !tooLarge(err) {
			return nil, err
		}
		all = append(all, resp.GetItems()...)
	}
	return all, nil
}

// listContainers lists all containers. In parts, these are the containers of sandboxes.
func (p *PLEG) listContainers(
	ctx context.Context, sandboxes []*runtimeapi.PodSandbox,
) ([]*runtimeapi.Container, error) {
	resp, err := p.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if !tooLarge(err) {
		return resp.GetContainers(), err
	}
	p.log.Warn("the list of all containers is larger than a message may be; listing them by sandbox", "error", err)
	var all []*runtimeapi.Container
	for _, s := range sandboxes {
		resp, err := p.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{
			Filter: &runtimeapi.ContainerFilter{PodSandboxId: s.GetId()},
		})
		if err != nil && !tooLarge(err) {
			return nil, err
		}
		all = append(all, resp.GetContainers()...)
	}
	return all, nil
}
