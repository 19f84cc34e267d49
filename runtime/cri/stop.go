package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// stopContainer stops a container within its grace period. A repeated call gets the rest of the grace period: a runtime
// whose client is gone may stop waiting and never send SIGKILL.
func (c *call) stopContainer(ctx context.Context, req *journaletv1.StopContainer) (result, error) {
	grace := max(req.GetGrace().AsDuration(), 0)
	end := c.clock.Now().Add(grace)
	for b := c.backOff(); ; {
		// Never more than the grace period, even if the clock was set back.
		left := min(max(end.Sub(c.clock.Now()), 0), grace)
		_, err := once(ctx, c, left+c.opts.Timeouts.Call, c.rt.StopContainer, &runtimeapi.StopContainerRequest{
			ContainerId: req.GetContainerId(), Timeout: int64((left + time.Second - 1) / time.Second),
		})
		if err == nil || isNotFound(err) {
			return result{containerID: req.GetContainerId()}, nil
		}
		if ctx.Err() != nil {
			return result{}, ctx.Err()
		}
		if !isDoubt(err) {
			return result{containerID: req.GetContainerId()}, err
		}
		c.log.Log(ctx, b.level, "no response to a stop; retrying with the rest of the grace period",
			"container", req.GetContainerId(), "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return result{}, err
		}
	}
}

// removeContainer removes a container, its log with all rotated ones, and the link to the log.
func (c *call) removeContainer(ctx context.Context, id string) (result, error) {
	st, err := retry(ctx, c, "ContainerStatus", c.opts.Timeouts.Call, c.rt.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: id})
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	if err != nil && !isNotFound(err) {
		// A container whose status cannot be read must still be removable.
		c.log.Warn("removing a container without its log: its status cannot be read",
			"container", id, "error", messageOf(err))
	}
	remove := &runtimeapi.RemoveContainerRequest{ContainerId: id}
	_, err = retry(ctx, c, "RemoveContainer", c.opts.Timeouts.Call, c.rt.RemoveContainer, remove)
	if isTaskLeft(err) {
		if err := c.deleteTask(ctx, id); err != nil {
			return result{containerID: id}, err
		}
		_, err = retry(ctx, c, "RemoveContainer", c.opts.Timeouts.Call, c.rt.RemoveContainer, remove)
	}
	if err != nil && !isNotFound(err) {
		return result{containerID: id}, err
	}
	// Logs left behind only cost disk until the pod is cleaned, so they do not fail the removal.
	if err := errors.Join(c.removeLog(st.GetStatus().GetLogPath()), c.removeLink(st.GetStatus())); err != nil {
		c.log.Warn("logs of a removed container cannot be removed", "container", id, "error", err)
	}
	return result{containerID: id}, nil
}

// removeLog removes a log below the pod log directory, and those rotated from it (0.log.<time>[.gz]).
func (c *call) removeLog(path string) error {
	if path == "" {
		return nil
	}
	rel, err := filepath.Rel(c.opts.PodLogDir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil
	}
	root, err := os.OpenRoot(c.opts.PodLogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	base := filepath.Base(rel)
	for e, err := range bounded.EntriesIn(root, filepath.Dir(rel)) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Name() != base && !strings.HasPrefix(e.Name(), base+".") {
			continue
		}
		if err := root.Remove(filepath.Join(filepath.Dir(rel), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeLink removes the link to a container's log. It costs the same however many containers there are. The link of a
// container whose status is gone is removed with its pod.
func (c *call) removeLink(st *runtimeapi.ContainerStatus) error {
	of := st.GetLabels()
	name := linkName(of[LabelPodName], of[LabelPodNamespace], of[LabelContainerName], st.GetId())
	if st == nil || name != filepath.Base(name) {
		return nil
	}
	err := os.Remove(filepath.Join(c.opts.ContainerLogDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
