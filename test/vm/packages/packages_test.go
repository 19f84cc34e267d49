//go:build vm

package packages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/vm/machine"
)

const (
	repo = "../../.."
	// soon bounds what takes seconds on a machine that is some five times slower than this one, and shares it.
	soon = 3 * time.Minute
)

func TestPackageIsInstalledUpgradedRemovedAndPurged(t *testing.T) {
	m := boot(t)
	do := func(script string) string { return m.Must(t, soon, script) }
	expect := func(script, want string) {
		t.Helper()
		if got := do(script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	const state = "systemctl is-enabled journalet; systemctl is-active journalet; true"

	do("dpkg -i /mnt/first.deb 2>&1")
	expect(state, "disabled\ninactive")

	// Images are from no registry here: a collected image is gone. And an emulated machine may stand still.
	do("echo JOURNALET_ARGS=--image-gc-high-threshold=100 >/etc/default/journalet && " +
		"mkdir -p /etc/systemd/system/journalet.service.d && " +
		"printf '[Service]\\nWatchdogSec=120\\n' >/etc/systemd/system/journalet.service.d/watchdog.conf && " +
		"cp /mnt/web.yaml /etc/journalet/pods/ && systemctl daemon-reload && systemctl enable --now journalet 2>&1")
	ready(t, m)
	const tasks, pid = "ctr -n k8s.io tasks ls | sort", "systemctl show journalet --value -p MainPID"
	running, first := do(tasks), do(pid)

	do("dpkg --force-confdef -i /mnt/second.deb 2>&1")
	expect(state, "enabled\nactive")
	expect("tr '\\0' ' ' </proc/$("+pid+")/cmdline", "/usr/bin/journalet run --image-gc-high-threshold=100")
	if do(pid) == first {
		t.Error("the upgrade has not restarted the agent")
	}
	ready(t, m)
	expect(tasks, running)

	do("dpkg -r journalet 2>&1")
	expect("systemctl is-active journalet; ls /usr/bin/journalet 2>/dev/null; true", "inactive")
	expect(tasks, running)

	do("dpkg -i /mnt/second.deb 2>&1")
	expect(state, "enabled\ninactive")
	do("systemctl start journalet")
	ready(t, m)
	expect(tasks, running)

	if out := do("dpkg -P journalet 2>&1"); !strings.Contains(out, "journalet reset") {
		t.Errorf("the purge does not say how to remove what stays:\n%s", out)
	}
	expect("ls -d /etc/default/journalet /etc/systemd/system/*.wants/journalet.service /var/lib/journalet/bus "+
		"2>/dev/null; true", "/var/lib/journalet/bus")
	expect(tasks, running)
}

// ready waits until the agent reports the pod ready.
func ready(t *testing.T, m *machine.Machine) {
	t.Helper()
	m.Eventually(t, soon, "web is ready", func() error {
		out, err := m.Run("journalet pods -o json")
		if err != nil {
			return err
		}
		var list corev1.PodList
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		if len(list.Items) != 1 || !node.Ready(&list.Items[0]) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

// boot boots a machine with a container runtime, and with two versions of the package at /mnt.
func boot(t *testing.T) *machine.Machine {
	t.Helper()
	dir := t.TempDir()
	files, dist := filepath.Join(dir, "files"), filepath.Join(dir, "dist")
	must.OK(t, os.Mkdir(files, 0o700))
	must.OK(t, machine.Programs(repo, files, map[string]string{"guest": "/test/vm/guest"}))
	from := []string{repo + "/deploy/pods/web.yaml", "../testdata/containerd.toml", "../testdata/node.conflist",
		"../testdata/runtime.sh"}
	command(t, ".", "cp", append(from, files)...)
	root, err := filepath.Abs(repo)
	must.OK(t, err)
	command(t, repo+"/deploy/dist", "go", "run", ".", "-root", root, "-out", dist, "-version", "v0.1.0")
	built := filepath.Join(dist, "journalet_0.1.0_amd64.deb")
	command(t, ".", "cp", built, files+"/first.deb")
	// The second is the same with another version.
	tree := filepath.Join(dir, "tree")
	command(t, ".", "dpkg-deb", "-R", built, tree)
	command(t, ".", "sed", "-i", "s/^Version: .*/Version: 0.1.1/", tree+"/DEBIAN/control")
	command(t, ".", "dpkg-deb", "-Znone", "-b", tree, files+"/second.deb")
	image, err := machine.Image("..")
	must.OK(t, err)
	work := filepath.Join(dir, "machine")
	must.OK(t, os.Mkdir(work, 0o700))
	m, err := machine.Boot(machine.Options{Image: image, Files: files, Dir: work, Unit: "journalet"})
	must.OK(t, err)
	t.Cleanup(m.Stop)
	m.Must(t, soon, "bash /mnt/runtime.sh 2>&1")
	return m
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
