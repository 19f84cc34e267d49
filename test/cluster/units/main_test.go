package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

func TestUnitIsStartedRestartedAndStopped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("UNITS_DIR", dir)
	log := filepath.Join(dir, "log")
	must.OK(t, run("systemd-run", []string{"-p", "Delegate=true", "-p", "StandardError=append:" + log,
		"--unit=kubelet-7.service", "--slice=runtime.slice", "sh", "-c", "echo $$; exec sleep 1000"}))
	u, err := load(filepath.Join(dir, "kubelet-7.json"))
	must.OK(t, err)
	must.Eventually(t, time.Minute, "what the program has noted", func() (string, bool) {
		b, err := os.ReadFile(log)
		return string(b), err == nil && string(b) == strconv.Itoa(u.Process.Pid)+"\n"
	})
	if !u.Process.Runs() {
		t.Errorf("%+v does not run", u)
	}
	must.OK(t, run("sudo", []string{"systemctl", "restart", "kubelet-7"}))
	again, err := load(u.path())
	must.OK(t, err)
	if u.Process.Runs() || !again.Process.Runs() {
		t.Errorf("after a restart %+v runs: %t, %+v: %t", u, u.Process.Runs(), again, again.Process.Runs())
	}
	must.OK(t, run("systemctl", []string{"stop", "kubelet-7.service"}))
	if again.Process.Runs() {
		t.Error("it runs after its stop")
	}
	for _, args := range [][]string{{"systemctl", "enable", "kubelet-7"}, {"systemctl", "stop", "other"}, {"journalctl"}} {
		if run(args[0], args[1:]) == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
