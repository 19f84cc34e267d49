package cgroup

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/cgroups"

	"github.com/journalet/journalet/test/must"
)

// found returns a tree before Init, in a directory that stands for the hierarchy of cgroup v2 and has these cgroups.
func found(t *testing.T, opts Options, has ...string) *Tree {
	t.Helper()
	top := t.TempDir()
	for _, path := range has {
		must.OK(t, os.MkdirAll(filepath.Join(top, path), 0o750))
	}
	return &Tree{opts: opts, log: slog.New(slog.DiscardHandler), unified: true, mounts: map[string]string{"": top},
		known: map[string]bool{}, pods: map[string]*entry{}}
}

func TestUnusableTreeIsNotInitialized(t *testing.T) {
	tree := found(t, Options{}, "kubepods/burstable/poda")
	if !tree.ShouldInit() || !tree.Has("a") {
		t.Error("the cgroups of an earlier run are not found")
	}
	tree.unusable = errors.New("read-only")
	if tree.ShouldInit() || tree.Has("a") {
		t.Error("a pod waits for an unusable tree")
	}
}

func TestHasFindsPodCgroupBeforeInit(t *testing.T) {
	tree := found(t, Options{All: true}, "kubepods/burstable/poda",
		"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podb_c.slice")
	for uid, want := range map[string]bool{"a": true, "b-c": true, "b_c": false, "b": false, "..": false, "": false} {
		if tree.Has(uid) != want {
			t.Errorf("pod %q: %t", uid, !want)
		}
	}
}

func TestUncreatableCgroupErrorNamesRemedy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for all, want := range map[bool]string{true: "--cgroups-per-qos=false", false: "leave spec.resources out"} {
		tree := found(t, Options{All: all})
		tree.mounts = map[string]string{"": file, "cpu": file}
		if err := tree.create(tree.layout.top(), Values{Shares: minShares}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("all %t: %v", all, err)
		}
	}
}

func TestTreeNeedsHierarchy(t *testing.T) {
	tree := &Tree{mounts: map[string]string{"devices": t.TempDir()}}
	if err := tree.checkWritable(); err == nil || !strings.Contains(err.Error(), "cpu, cpuset, memory, pids") {
		t.Errorf("%v", err)
	}
}

// TestProcessOfOtherPIDNamespaceIsNotKilled: cgroup v2 lists processes outside of the agent's PID namespace as 0, and
// kill(2) signals the own process group for 0.
func TestProcessOfOtherPIDNamespaceIsNotKilled(t *testing.T) {
	// A signal by mistake then ends only this program.
	must.OK(t, syscall.Setpgid(0, 0))
	cgroups.TestMode = true
	t.Cleanup(func() { cgroups.TestMode = false })
	tree := found(t, Options{}, "kubepods/poda")
	procs := filepath.Join(tree.mounts[""], "kubepods/poda/cgroup.procs")
	must.OK(t, os.WriteFile(procs, []byte("0\n"), 0o600))
	if err := tree.kill("a", tree.layout.top().child("poda")); err == nil ||
		!strings.Contains(err.Error(), "PID namespace") {
		t.Errorf("%v", err)
	}
}
