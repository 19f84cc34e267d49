package cri_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// files returns the files of the pod's container, relative to the directory of the test: logs, links to them and
// termination messages.
func (r *rig) files() []string {
	r.t.Helper()
	var all []string
	for _, dir := range []string{"logs", "links", "root/pods/" + uid + "/containers"} {
		err := filepath.WalkDir(filepath.Join(r.dir, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				all = append(all, filepath.Base(path))
			}
			return err
		})
		must.OK(r.t, err)
	}
	slices.Sort(all)
	return all
}

// instance starts and ends an attempt of the container, which leaves its files and a rotated log.
func (r *rig) instance(sandbox string, attempt uint32) (id string) {
	r.t.Helper()
	name := string(rune('0' + attempt))
	id = r.done("c"+name, startContainer(sandbox, attempt), false).GetContainerId()
	dir := filepath.Join(r.dir, "logs/default_web_"+uid, "main")
	must.OK(r.t, errors.Join(os.WriteFile(filepath.Join(dir, name+".log"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, name+".log.20261121-101500.gz"), nil, 0o600)))
	r.done("x"+name, stopContainer(id, 0), false)
	return id
}

// filesOf returns what instance leaves, sorted.
func filesOf(ids map[string]string) []string {
	var all []string
	for attempt, id := range ids {
		all = append(all, attempt, attempt+".log", attempt+".log.20261121-101500.gz", "web_default_main-"+id+".log")
	}
	slices.Sort(all)
	return all
}

func TestRemovedContainerLeavesNoFile(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	zero, one := r.instance(sandbox, 0), r.instance(sandbox, 1)
	r.runtime.ResetCalls()
	r.done("r0", removeContainer(zero), false)
	if got, want := r.files(), filesOf(map[string]string{"1": one}); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if n := r.runtime.Calls()["ListContainers"]; n != 0 {
		t.Errorf("the runtime listed its containers %d times for nothing", n)
	}
	r.done("r0", removeContainer(zero), true)
}

// The files of an instance that another client has removed go with the next removal; the files of an older instance
// that is kept stay.
func TestFilesOfAnInstanceThatOthersRemovedAreRemoved(t *testing.T) {
	r := newRig(t, nil)
	sandbox := r.sandbox()
	kept, lost, third := r.instance(sandbox, 0), r.instance(sandbox, 1), r.instance(sandbox, 2)
	newest := r.instance(sandbox, 3)
	_, err := runtimeapi.NewRuntimeServiceClient(r.conn).RemoveContainer(context.Background(),
		&runtimeapi.RemoveContainerRequest{ContainerId: lost})
	must.OK(t, err)
	r.done("r", removeContainer(third), false)
	if got, want := r.files(), filesOf(map[string]string{"0": kept, "3": newest}); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}
