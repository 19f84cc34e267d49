package cri

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// profile is the tested part of an OCI seccomp profile.
type profile struct {
	DefaultAction   string
	DefaultErrnoRet uint
	Architectures   []string
	Syscalls        []struct {
		Names  []string
		Action string
	}
}

func TestPauseProfileAllowsOnlyHarmlessSystemCalls(t *testing.T) {
	dir := t.TempDir()
	path, err := WriteSandboxSeccomp(dir)
	must.OK(t, err)
	b, err := os.ReadFile(path)
	must.OK(t, err)
	var p profile
	must.OK(t, json.Unmarshal(b, &p))
	// ENOSYS, not EPERM: a libc falls back if the kernel lacks a call, and fails if it is forbidden. No architectures:
	// each further one costs as much again to load, and a pause process has one.
	if p.DefaultAction != "SCMP_ACT_ERRNO" || p.DefaultErrnoRet != 38 || len(p.Architectures) != 0 {
		t.Errorf("got %+v", p)
	}
	var allowed []string
	for _, s := range p.Syscalls {
		if s.Action != "SCMP_ACT_ALLOW" {
			t.Errorf("action %s", s.Action)
		}
		allowed = append(allowed, s.Names...)
	}
	slices.Sort(allowed)
	if n := len(slices.Compact(slices.Clone(allowed))); n != len(allowed) {
		t.Errorf("%d names are listed twice", len(allowed)-n)
	}
	for _, name := range []string{"pause", "wait4", "rt_sigaction", "execve", "exit_group"} {
		if !slices.Contains(allowed, name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"mount", "umount2", "unshare", "setns", "bpf", "ptrace", "init_module", "kexec_load",
		"io_uring_setup", "userfaultfd", "open_by_handle_at", "perf_event_open", "reboot"} {
		if slices.Contains(allowed, name) {
			t.Errorf("%s is allowed", name)
		}
	}
}

func TestPauseProfileIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	path, err := WriteSandboxSeccomp(dir)
	must.OK(t, err)
	before, err := os.Stat(path)
	must.OK(t, err)
	if _, err := WriteSandboxSeccomp(dir); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("a second start wrote the profile again: %v", err)
	}
	must.OK(t, os.WriteFile(path, []byte("{"), 0o600))
	if _, err := WriteSandboxSeccomp(dir); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(b) < 2 {
		t.Errorf("a damaged profile stays: %q, %v", b, err)
	}
	if _, err := WriteSandboxSeccomp(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing directory is no error")
	}
}

func TestSandboxGetsPauseProfile(t *testing.T) {
	d := testDriver()
	d.opts.Security.SandboxSeccomp = "/var/lib/x/sandbox-seccomp.json"
	c, err := d.sandboxConfig(testPod(nil), nil, 0, "i", "/logs")
	must.OK(t, err)
	got := c.Linux.SecurityContext.Seccomp
	if got.ProfileType != runtimeapi.SecurityProfile_Localhost || got.LocalhostRef != d.opts.Security.SandboxSeccomp {
		t.Errorf("got %v", got)
	}
}
