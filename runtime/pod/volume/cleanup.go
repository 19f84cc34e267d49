package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// Clean is TearDown that then removes the links to the pod's logs, its log directory and, last, its own directory.
// Without a name, as for an orphan, it finds the log directory by the UID. It removes nothing but volumes if one of
// these fails.
func (d *Driver) Clean(ctx context.Context, uid, namespace, name string) ([]*journaletv1.VolumeOutcome, error) {
	outcomes, err := d.TearDown(ctx, uid)
	if err != nil || failed(outcomes) {
		return outcomes, err
	}
	if name != "" {
		err = d.cleanLogs(ctx, uid, namespace, name)
	} else {
		err = d.cleanLogsOf(ctx, uid)
	}
	if err != nil {
		return outcomes, err
	}
	// Last: by this directory an agent whose journal is lost finds the pod, and then its logs.
	return outcomes, d.removePodDir(ctx, uid)
}

// cleanLogsOf is cleanLogs of a pod whose name is not known.
func (d *Driver) cleanLogsOf(ctx context.Context, uid string) error {
	for e, err := range bounded.Entries(d.opts.PodLogDir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the logs of pod %s: %w", uid, err)
		}
		full, found := strings.CutSuffix(e.Name(), "_"+uid)
		namespace, name, named := strings.Cut(full, "_")
		if found && named {
			if err := d.cleanLogs(ctx, uid, namespace, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanLogs removes a pod's log directory and the links into it.
func (d *Driver) cleanLogs(ctx context.Context, uid, namespace, name string) error {
	logs := own.PodLogs(namespace, name, uid)
	if err := checkNames(logs); err != nil {
		return err
	}
	if err := d.removeLinks(namespace, name, logs); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.opts.PodLogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the log directory: %w", err)
	}
	defer root.Close()
	if err := bounded.RemoveTree(ctx, root, logs); err != nil {
		return fmt.Errorf("remove the logs of pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

func (d *Driver) removePodDir(ctx context.Context, uid string) error {
	pods, err := os.OpenRoot(filepath.Join(d.opts.RootDir, own.Pods))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the directory of pods: %w", err)
	}
	defer pods.Close()
	if err := d.refuseMounts(d.PodDir(uid)); err != nil {
		return err
	}
	if err := bounded.RemoveTree(ctx, pods, uid); err != nil {
		return fmt.Errorf("remove the directory of pod %s: %w", uid, err)
	}
	return nil
}

func (d *Driver) refuseMounts(dir string) error {
	points, err := d.mounts.below(dir)
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return nil
	}
	paths := make([]string, 0, len(points))
	for _, p := range points {
		paths = append(paths, p.path)
	}
	return leftMounts(dir, paths)
}

// removeLinks removes the links in the container log directory that point into the pod's log directory. The name alone
// is ambiguous: another pod's links may begin with it.
func (d *Driver) removeLinks(namespace, name, logs string) error {
	below := filepath.Join(d.opts.PodLogDir, logs) + "/"
	return d.removeLinksTo(name+"_"+namespace+"_", func(target string) bool { return strings.HasPrefix(target, below) })
}
