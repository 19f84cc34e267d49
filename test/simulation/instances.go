package simulation

import (
	"cmp"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/own"
)

// The agent's directories, which are on no disk.
const (
	rootDir   = "/dev/null/journalet"
	podLogDir = "/dev/null/logs"
)

// instanceFile are the files of one instance of a container.
type instanceFile struct {
	container string
	attempt   uint32
}

// instanceText is what the files of an instance hold: its termination message and its log, as text.
type instanceText struct {
	message, log string
	// removed is set if another client has removed the instance.
	removed bool
}

// CreateLogDir implements cri.Volumes, as do the methods below. The directory is always there.
func (disk) CreateLogDir(namespace, name, uid, container string) (string, error) {
	return filepath.Join(podLogDir, own.PodLogs(namespace, name, uid), container), nil
}

// CreateTerminationFile has a file of its own for each instance, which stands for all files of the instance.
func (d disk) CreateTerminationFile(uid, container string, attempt uint32) (string, error) {
	n := d.run.world.files
	if n.instances[uid] == nil {
		n.instances[uid] = map[instanceFile]*instanceText{}
	}
	n.instances[uid][instanceFile{container, attempt}] = &instanceText{}
	d.run.judge.filesFit(uid, container)
	return filepath.Join(rootDir, own.Pods, uid, container, strconv.Itoa(int(attempt))), nil
}

// readTail reads the end of a termination message or of a log.
func (n *nodeFiles) readTail(dir, below string, most int64) ([]byte, error) {
	parts := strings.Split(below, "/")
	if len(parts) != 3 {
		return nil, fs.ErrNotExist
	}
	attempt, err := strconv.ParseUint(strings.TrimSuffix(parts[2], ".log"), 10, 32)
	if err != nil {
		return nil, err
	}
	uid := parts[0][strings.LastIndexByte(parts[0], '_')+1:] // of a log: <namespace>_<name>_<UID>
	held := n.instances[uid][instanceFile{parts[1], uint32(attempt)}]
	if held == nil {
		return nil, fs.ErrNotExist
	}
	text := held.message
	if dir == podLogDir {
		text = held.log
	}
	return []byte(text[max(0, len(text)-int(most)):]), nil
}

// says has a container that ends leave a termination message and a log.
func (n *nodeFiles) says(c *container) {
	if held := n.instances[c.uid][instanceFile{c.name, c.attempt}]; held != nil {
		c.message, held.message = c.does.message, c.does.message
		held.log = "2026-11-20T00:00:00Z stderr F " + c.does.log
		fallsBack := c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
		if c.message == "" && c.code != 0 && fallsBack {
			c.message = c.does.log
		}
	}
}

// RemoveInstances removes the files of the instances that are gone.
func (d disk) RemoveInstances(_, _, uid, container string, gone func(uint32) (bool, error)) error {
	files := d.run.world.files.instances[uid]
	all := slices.SortedFunc(maps.Keys(files), func(x, y instanceFile) int { return cmp.Compare(x.attempt, y.attempt) })
	var older []instanceFile
	for _, f := range all {
		if f.container != container {
			continue
		}
		is, err := gone(f.attempt)
		if err != nil {
			return err
		}
		if !is {
			older = append(older, f)
			continue
		}
		delete(files, f)
		for _, f := range older {
			if held := files[f]; held != nil {
				held.removed = false // the removal of a newer instance ends the exception for what others removed
			}
		}
	}
	if len(files) == 0 {
		delete(d.run.world.files.instances, uid)
	}
	return nil
}

// maxInstanceFiles bounds the instances of a container whose files are on the disk when one more starts: this one, the
// newest dead one, the one before while it is being removed, and one of a start that a kill of the agent has cut.
const maxInstanceFiles = 4

// removedByOthers records that another client removed an instance from the runtime. Its files stay until the agent
// removes a newer instance of the container.
func (n *nodeFiles) removedByOthers(uid, container string, attempt uint32) {
	f := instanceFile{container, attempt}
	if held := n.instances[uid][f]; held != nil {
		held.removed = true
	}
}

// filesFit: a container that restarts keeps the files of its newest instances only, and the files of instances that
// others have removed.
func (j *judge) filesFit(uid, container string) {
	n := 0
	for f, held := range j.sim.world.files.instances[uid] {
		if !held.removed && f.container == container {
			n++
		}
	}
	if n > maxInstanceFiles {
		j.broken(filesOfInstances, uid, "container %s has files of %d instances", container, n)
	}
}
