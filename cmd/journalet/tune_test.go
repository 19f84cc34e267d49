package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/tune"
	"github.com/journalet/journalet/test/must"
)

// containerdBelow returns a containerd that prints a configuration, and with a drop-in what that sets.
func containerdBelow(t *testing.T) *tune.Containerd {
	t.Helper()
	c := &tune.Containerd{Root: t.TempDir(), Config: tune.DefaultConfig, Program: "/containerd", Unit: "containerd"}
	conf := filepath.Join(c.Root, "etc/containerd/conf.d")
	must.OK(t, os.MkdirAll(conf, 0o750))
	const config = "imports = ['/etc/containerd/conf.d/*.toml']\n"
	must.OK(t, os.WriteFile(filepath.Join(c.Root, c.Config), []byte(config), 0o600))
	program := "#!/bin/sh\nperiod=; [ ! -e '" + conf + "/90-journalet.toml' ] || period=24h\n" +
		"echo \"[plugins.'io.containerd.cri.v1.runtime']\"; echo \"stats_collect_period = '$period'\"\n"
	must.OK(t, os.WriteFile(filepath.Join(c.Root, c.Program), []byte(program), 0o600))
	must.OK(t, os.Chmod(filepath.Join(c.Root, c.Program), 0o700))
	return c
}

func TestRuntimeIsTunedAndUntuned(t *testing.T) {
	c := containerdBelow(t)
	dropIn := filepath.Join(c.Root, "etc/containerd/conf.d/90-journalet.toml")
	a, out := testApp()
	tuning := func(o tuneOptions, plan func() (*tune.Change, error)) error {
		t.Helper()
		out.Reset()
		change, err := plan()
		must.OK(t, err)
		return a.tune(t.Context(), change, &o)
	}
	fix := func() (*tune.Change, error) { return c.Fix(t.Context()) }

	must.OK(t, tuning(tuneOptions{fix: true, dryRun: true}, fix))
	golden(t, "check_fix", out.String())
	if err := tuning(tuneOptions{fix: true}, fix); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without a terminal: %v", err)
	}
	if _, err := os.Lstat(dropIn); err == nil {
		t.Error("it is written without a confirmation")
	}
	must.OK(t, tuning(tuneOptions{fix: true, yes: true}, fix))
	if !strings.HasSuffix(out.String(), "to have it in effect: systemctl restart containerd\n"+
		"journalet: with containerd's own unit no container ends by that; if it does not start: journalet check --undo\n") {
		t.Error(out)
	}
	must.OK(t, tuning(tuneOptions{fix: true, yes: true}, fix))
	if !strings.Contains(out.String(), "nothing was changed: the configuration has what --fix is to set") {
		t.Error(out)
	}
	must.OK(t, tuning(tuneOptions{undo: true, yes: true}, c.Undo))
	if got := out.String(); got != "remove     /etc/containerd/conf.d/90-journalet.toml\n"+
		"journalet: done; to have it in effect: systemctl restart containerd\n" {
		t.Error(got)
	}
	must.OK(t, tuning(tuneOptions{undo: true, yes: true}, c.Undo))
	if !strings.Contains(out.String(), "nothing was changed: there is nothing that --fix has written") {
		t.Error(out)
	}
	a.output = formatJSON
	must.OK(t, tuning(tuneOptions{fix: true, dryRun: true}, fix))
	var change tune.Change
	must.OK(t, json.Unmarshal(out.Bytes(), &change))
	if len(change.Changes) != 1 || change.Content != tune.Content || change.Restart != "systemctl restart containerd" {
		t.Errorf("%+v", change)
	}
}

// The undo is for a containerd that does not run any more.
func TestTuningIsUndoneWithoutARuntime(t *testing.T) {
	t.Setenv(rootDirEnv, "")
	dir := t.TempDir()
	config, dropIn := filepath.Join(dir, "config.toml"), filepath.Join(dir, "conf.d/90-journalet.toml")
	must.OK(t, os.MkdirAll(filepath.Dir(dropIn), 0o750))
	must.OK(t, os.WriteFile(config, []byte("imports = ['conf.d/*.toml']\n"), 0o600))
	must.OK(t, os.WriteFile(dropIn, []byte(tune.Content), 0o600))
	none := "--container-runtime-endpoint=unix://" + filepath.Join(dir, "none.sock")
	code, out, errs := run(t.Context(), "check", "--fix", "--yes", none, "--runtime-config", config)
	if code != exitError || !strings.Contains(errs, "no runtime at") || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("a fix: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = run(t.Context(), "check", "--undo", "--yes", none, "--runtime-config", config); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Lstat(dropIn); err == nil {
		t.Errorf("it is still there\n%s%s", out, errs)
	}
	for _, args := range [][]string{{"--yes"}, {"--runtime-config", config}, {"--fix", "--undo"}} {
		if code, _, errs := run(t.Context(), append([]string{"check", none}, args...)...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}
