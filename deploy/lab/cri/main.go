package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// queryTimeout bounds a command that only reads. lab.sh repeats it until the runtime is up.
	queryTimeout = 2 * time.Second
	// removeTimeout bounds the removal of all pods; what is left then, lab.sh removes without the runtime.
	removeTimeout = 60 * time.Second
	// removeParallel is how many pods are removed at a time: each costs a CNI DEL and two runs of runc.
	removeParallel = 8
	// maxMessageBytes is the kubelet's limit for CRI messages.
	maxMessageBytes = 16 << 20
)

const usage = `usage: cri ENDPOINT COMMAND

  ready           exit status 0 if the runtime answers
  images REF...   exit status 0 if the runtime lists every image
  count           print how many pods and running containers there are
  remove          stop and remove every pod`

// runtime is both services of one endpoint.
type runtime struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func run(endpoint, command string, args []string) error {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", endpoint, err)
	}
	defer conn.Close()
	r := runtime{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)}
	timeout := queryTimeout
	if command == "remove" {
		timeout = removeTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	switch command {
	case "ready":
		_, err := r.Version(ctx, &runtimeapi.VersionRequest{})
		return err
	case "images":
		return r.listed(ctx, args)
	case "count":
		return r.count(ctx)
	case "remove":
		return r.remove(ctx)
	}
	return errors.New(usage)
}

// listed returns an error that names the first image the runtime does not list.
func (r runtime) listed(ctx context.Context, refs []string) error {
	answer, err := r.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, ref := range refs {
		named := func(image *runtimeapi.Image) bool { return slices.Contains(image.GetRepoTags(), ref) }
		if !slices.ContainsFunc(answer.GetImages(), named) {
			return fmt.Errorf("the runtime does not list %s", ref)
		}
	}
	return nil
}

func (r runtime) count(ctx context.Context) error {
	pods, err := r.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	filter := &runtimeapi.ContainerFilter{State: running}
	containers, err := r.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	fmt.Printf("%d pods, %d running containers\n", len(pods.GetItems()), len(containers.GetContainers()))
	return nil
}

// remove stops and removes every pod; it tries each, and returns the first error.
func (r runtime) remove(ctx context.Context) error {
	pods, err := r.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(removeParallel)
	for _, pod := range pods.GetItems() {
		group.Go(func() error {
			id, name := pod.GetId(), pod.GetMetadata().GetName()
			if err := r.killContainers(ctx, id); err != nil {
				return fmt.Errorf("kill the containers of pod %s: %w", name, err)
			}
			if _, err := r.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
				return fmt.Errorf("stop pod %s: %w", name, err)
			}
			if _, err := r.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
				return fmt.Errorf("remove pod %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// killContainers kills a pod's containers. To stop its sandbox is not enough everywhere: CRI-O gives containers all the
// time that the call has.
func (r runtime) killContainers(ctx context.Context, pod string) error {
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	filter := &runtimeapi.ContainerFilter{PodSandboxId: pod, State: running}
	containers, err := r.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		return err
	}
	for _, c := range containers.GetContainers() {
		if _, err := r.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId()}); err != nil {
			return err
		}
	}
	return nil
}
