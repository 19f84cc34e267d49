package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/calls"
)

// removeContainer removes a container, and before it what is found by its status only: its log with all rotated ones,
// the link to the log, and its termination message.
func (c *call) removeContainer(ctx context.Context, id string) (*calls.Outcome, error) {
	st, err := retry(ctx, c, "ContainerStatus", c.opts.Timeouts.Call, c.rt.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && !isNotFound(err) {
		// A container whose status cannot be read must still be removable.
		c.Log.Warn("removing a container without its log: its status cannot be read",
			"container", id, "error", messageOf(err))
	}
	// Files left behind only cost disk until the pod is cleaned, so they do not fail the removal.
	if err := c.removeFiles(ctx, st.GetStatus()); err != nil {
		c.Log.Warn("files of a removed container cannot be removed", "container", id, "error", err)
	}
	remove := &runtimeapi.RemoveContainerRequest{ContainerId: id}
	_, err = retry(ctx, c, "RemoveContainer", c.opts.Timeouts.Call, c.rt.RemoveContainer, remove)
	if isTaskLeft(err) {
		if err := c.deleteTask(ctx, id); err != nil {
			return &calls.Outcome{ContainerId: id}, err
		}
		_, err = retry(ctx, c, "RemoveContainer", c.opts.Timeouts.Call, c.rt.RemoveContainer, remove)
	}
	if err != nil && !isNotFound(err) {
		return &calls.Outcome{ContainerId: id}, err
	}
	return &calls.Outcome{ContainerId: id}, nil
}

// removeFiles removes the files of a container's instance, and the files of older instances that the runtime does not
// have: another client may have removed these instances, or the agent was killed during their removal.
func (c *call) removeFiles(ctx context.Context, st *runtimeapi.ContainerStatus) error {
	if st == nil {
		return nil
	}
	labels, this := st.GetLabels(), st.GetMetadata().GetAttempt()
	var others map[uint32]bool
	return c.opts.Volumes.RemoveInstances(labels[LabelPodNamespace], labels[LabelPodName], c.UID,
		labels[LabelContainerName], func(attempt uint32) (bool, error) {
			if attempt >= this {
				return attempt == this, nil
			}
			if others == nil {
				var err error
				if others, err = c.attempts(ctx, labels[LabelContainerName]); err != nil {
					return false, err
				}
			}
			return !others[attempt], nil
		})
}

// attempts returns the attempts of a container that the runtime has.
func (c *call) attempts(ctx context.Context, container string) (map[uint32]bool, error) {
	resp, err := retry(ctx, c, "ListContainers", c.opts.Timeouts.Call, c.rt.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			LabelSelector: map[string]string{LabelPodUID: c.UID, LabelContainerName: container},
		}})
	if err != nil {
		return nil, fmt.Errorf("list the instances of container %s: %w", container, err)
	}
	all := make(map[uint32]bool, len(resp.GetContainers()))
	for _, x := range resp.GetContainers() {
		if x.GetMetadata().GetName() == container {
			all[x.GetMetadata().GetAttempt()] = true
		}
	}
	return all, nil
}

// maxNameBytes is the longest file name on Linux.
const maxNameBytes = 255

// linkLog links /var/log/containers/<pod>_<ns>_<container>-<id>.log to the container's log, which need not exist yet.
func (c *call) linkLog(podName, namespace, container, id, logPath string) error {
	//nolint:gosec // G301: log shippers read it without root
	if err := os.MkdirAll(c.opts.ContainerLogDir, 0o755); err != nil {
		return fmt.Errorf("create the directory of container log links: %w", err)
	}
	link := filepath.Join(c.opts.ContainerLogDir, linkName(podName, namespace, container, id))
	if err := os.Symlink(logPath, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("link the container's log: %w", err)
	}
	return nil
}

func linkName(podName, namespace, container, id string) string {
	const ext = ".log"
	name := fmt.Sprintf("%s_%s_%s-%s", podName, namespace, container, id)
	return name[:min(len(name), maxNameBytes-len(ext))] + ext
}
