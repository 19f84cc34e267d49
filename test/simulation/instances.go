package simulation

import (
	"cmp"
	"maps"
	"slices"
)

// instanceFile are the files of one instance of a container.
type instanceFile struct {
	container string
	attempt   uint32
}

// CreateTerminationFile implements cri.Volumes, as does the method below. It stands for all files of an instance.
func (d disk) CreateTerminationFile(uid, container string, attempt uint32) (string, error) {
	n := d.run.world.files
	if n.instances[uid] == nil {
		n.instances[uid] = map[instanceFile]bool{}
	}
	n.instances[uid][instanceFile{container, attempt}] = true
	d.run.judge.filesFit(uid, container)
	return "/", nil
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
			files[f] = true // the removal of a newer instance ends the exception for what others removed
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
	if n.instances[uid][f] {
		n.instances[uid][f] = false
	}
}

// filesFit: a container that restarts keeps the files of its newest instances only, and of those that others have
// removed.
func (j *judge) filesFit(uid, container string) {
	n := 0
	for f, counts := range j.sim.world.files.instances[uid] {
		if counts && f.container == container {
			n++
		}
	}
	if n > maxInstanceFiles {
		j.broken(filesOfInstances, uid, "container %s has files of %d instances", container, n)
	}
}
