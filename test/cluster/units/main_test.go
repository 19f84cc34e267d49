package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// pids returns the processes that a unit's program has noted.
func pids(t *testing.T, path string) []int {
	t.Helper()
	for {
		b, err := os.ReadFile(path)
		must.OK(t, err)
		var all []int
		for line := range strings.Lines(string(b)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			must.OK(t, err)
			all = append(all, pid)
		}
		if len(all) > 0 && strings.HasSuffix(string(b), "\n") {
			return all
		}
	}
}

func TestUnitIsStartedRestartedAndStopped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("UNITS_DIR", dir)
	log := filepath.Join(dir, "log")
	must.OK(t, run("systemd-run", []string{"-p", "Delegate=true", "-p", "StandardError=append:" + log,
		"--unit=kubelet-7.service", "--slice=runtime.slice", "sh", "-c", "echo $$; exec sleep 1000"}))
	u, err := load(filepath.Join(dir, "kubelet-7.json"))
	must.OK(t, err)
	if first := pids(t, log); first[0] != u.PID || !u.runs() {
		t.Errorf("the unit is %+v, and its program has noted %d", u, first)
	}
	must.OK(t, run("sudo", []string{"systemctl", "restart", "kubelet-7"}))
	again, err := load(u.path())
	must.OK(t, err)
	if u.runs() || !again.runs() {
		t.Errorf("after a restart %d runs: %t, %d: %t", u.PID, u.runs(), again.PID, again.runs())
	}
	must.OK(t, run("systemctl", []string{"stop", "kubelet-7.service"}))
	if again.runs() {
		t.Error("it runs after its stop")
	}
	for _, args := range [][]string{{"systemctl", "enable", "kubelet-7"}, {"systemctl", "stop", "other"}, {"journalctl"}} {
		if run(args[0], args[1:]) == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
