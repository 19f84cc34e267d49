package iptables

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/program"
	"github.com/journalet/journalet/test/must"
)

// standIn returns tables whose program is a shell script.
func standIn(t *testing.T, script string) tables {
	t.Helper()
	path := filepath.Join(t.TempDir(), "iptables")
	must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return tables{path}
}

// called returns what the program has written about its calls.
func called(t *testing.T, fake tables) string {
	t.Helper()
	b, err := os.ReadFile(fake.program + ".calls")
	must.OK(t, err)
	return string(b)
}

// iptables gets none of the agent's environment: iptables loads code from a directory that its environment names.
func TestIptablesHasNoneOfTheAgentsEnvironment(t *testing.T) {
	t.Setenv("XTABLES_LIBDIR", "/from/the/agent")
	fake := standIn(t, `echo "$XTABLES_LIBDIR,$PATH" >"$0.calls"`)
	must.OK(t, fake.NewChain(nat, canaryChain))
	if got := called(t, fake); got != ","+program.Path+"\n" {
		t.Errorf("the program has %q", got)
	}
}

func TestARuleIsAddedOnceAndWaitsForTheLock(t *testing.T) {
	fake := standIn(t, `echo "$@" >>"$0.calls"; case "$*" in *"-C missing"*) exit 1;; esac`)
	must.OK(t, fake.InsertUnique(filter, "there", 1, "-j", "X"))
	must.OK(t, fake.InsertUnique(filter, "missing", 1, "-j", "X"))
	must.OK(t, fake.AppendUnique(filter, "missing", "-j", "Y"))
	want := `--wait 5 -t filter -C there -j X
--wait 5 -t filter -C missing -j X
--wait 5 -t filter -I missing 1 -j X
--wait 5 -t filter -C missing -j Y
--wait 5 -t filter -A missing -j Y
`
	if got := called(t, fake); got != want {
		t.Errorf("called as\n%s", got)
	}
}

func TestOnlyStatus1MeansNotThere(t *testing.T) {
	for script, want := range map[string]struct {
		ok  bool
		err string
	}{
		"exit 0":                               {ok: true},
		"echo No chain >&2; exit 1":            {},
		"echo Another app >&2; exit 4":         {err: "exit status 4: Another app"},
		"yes long | head -c 99999 >&2; exit 3": {err: "exit status 3: long"},
		"kill -9 $$":                           {err: "killed"},
	} {
		ok, err := standIn(t, script).ChainExists(nat, "X")
		if ok != want.ok || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %v, %v", script, ok, err)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d bytes", script, len(err.Error()))
		}
	}
}

func TestAMachineWithoutTheProgramHasAnErrorOfItsOwn(t *testing.T) {
	if _, err := newTables("no-such-iptables"); !errors.Is(err, program.ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
	if _, err := newTables(standIn(t, "exit 3").program); err == nil || errors.Is(err, program.ErrNotFound) {
		t.Errorf("the error of one that fails is %v", err)
	}
}
