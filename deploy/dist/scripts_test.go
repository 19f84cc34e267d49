package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is where a maintainer script runs: with systemd's directory, and programs that only write down their calls.
type machine struct{ dir string }

func newMachine(t *testing.T, systemd bool) machine {
	t.Helper()
	m := machine{t.TempDir()}
	for _, name := range []string{"systemctl", "deb-systemd-invoke"} {
		text := "#!/bin/sh\necho " + name + " \"$@\" >>" + m.dir + "/calls\n"
		ok(t, put(filepath.Join(m.dir, "bin", name), []byte(text)))
		ok(t, os.Chmod(filepath.Join(m.dir, "bin", name), 0o700))
	}
	if systemd {
		ok(t, os.MkdirAll(filepath.Join(m.dir, "systemd"), 0o750))
	}
	return m
}

// run runs a script, and returns the calls with its output.
func (m machine) run(t *testing.T, k kind, name string, args ...string) string {
	t.Helper()
	text := strings.NewReplacer("/run/systemd/system", m.dir+"/systemd", "/usr/bin/kubelet", m.dir+"/kubelet").
		Replace(string(script(k, name)))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", text, name}, args...)...)
	cmd.Env = []string{"PATH=" + m.dir + "/bin:/usr/bin:/bin"}
	if k == debian && name == "postrm" && args[0] == "purge" {
		cmd.Env = append(cmd.Env, "DPKG_ROOT="+m.dir)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s %v: %v\n%s", k, name, args, err, out)
	}
	calls, _ := os.ReadFile(m.dir + "/calls") // none
	_ = os.Remove(m.dir + "/calls")
	return string(out) + string(calls)
}

const (
	reload  = "systemctl daemon-reload\n"
	invoke  = "deb-systemd-invoke "
	disable = "systemctl --no-reload disable journalet.service\n"
)

func TestScriptsStartAndEnableNothing(t *testing.T) {
	for _, c := range []struct {
		kind    kind
		script  string
		args    []string
		systemd bool
		want    string
	}{
		{debian, "postinst", []string{"configure", ""}, true, reload},
		{debian, "postinst", []string{"configure", "0.1.0"}, true, reload + invoke + "try-restart journalet.service\n"},
		{debian, "postinst", []string{"configure", "0.1.0"}, false, ""},
		{debian, "postinst", []string{"abort-upgrade", "0.1.0"}, true, ""},
		{debian, "prerm", []string{"upgrade", "0.2.0"}, true, ""},
		{debian, "prerm", []string{"remove"}, true, invoke + "stop journalet.service\n"},
		{debian, "prerm", []string{"remove"}, false, ""},
		{debian, "postrm", []string{"remove"}, true, reload},
		{redhat, "post", []string{"1"}, true, reload},
		{redhat, "post", []string{"2"}, true, reload + "systemctl try-restart journalet.service\n"},
		{redhat, "post", []string{"2"}, false, ""},
		{redhat, "preun", []string{"1"}, true, ""},
		{redhat, "preun", []string{"0"}, true, disable + "systemctl stop journalet.service\n"},
		{redhat, "postun", []string{"0"}, true, reload},
	} {
		if got := newMachine(t, c.systemd).run(t, c.kind, c.script, c.args...); got != c.want {
			t.Errorf("%s %s %v, systemd %v: %q, want %q", c.kind, c.script, c.args, c.systemd, got, c.want)
		}
	}
}

// A link named kubelet that leads to the program makes the unit kubelet one of this package's.
func TestScriptsKnowTheAgentInTheKubeletsPlace(t *testing.T) {
	for _, c := range []struct {
		kind         kind
		script, what string
		args         []string
	}{
		{debian, "postinst", invoke + "try-restart ", []string{"configure", "0.1.0"}},
		{debian, "prerm", invoke + "stop ", []string{"remove"}},
		{redhat, "post", "systemctl try-restart ", []string{"2"}},
		{redhat, "preun", "systemctl stop ", []string{"0"}},
	} {
		m := newMachine(t, true)
		for link, unit := range map[string]bool{"/usr/bin/journalet": true, "/usr/bin/hyperkube": false} {
			_ = os.Remove(m.dir + "/kubelet") // of the turn before
			ok(t, os.Symlink(link, m.dir+"/kubelet"))
			got := m.run(t, c.kind, c.script, c.args...)
			want := c.what + "journalet.service\n"
			if unit {
				want = c.what + "journalet.service kubelet.service\n"
			}
			if !strings.HasSuffix(got, want) {
				t.Errorf("%s %s with a link to %s: %q, want %q", c.kind, c.script, link, got, want)
			}
		}
	}
}

func TestPurgeLeavesWhatPodsHave(t *testing.T) {
	m := newMachine(t, true)
	wants := filepath.Join(m.dir, "etc/systemd/system/multi-user.target.wants/journalet.service")
	journal := filepath.Join(m.dir, "var/lib/journalet/bus/HEAD")
	ok(t, put(wants, nil))
	ok(t, put(journal, nil))
	if got := m.run(t, debian, "postrm", "purge"); !strings.Contains(got, "journalet reset") {
		t.Errorf("the purge does not say how to remove what stays: %q", got)
	}
	if _, err := os.Stat(journal); err != nil {
		t.Errorf("the journal is gone: %v", err)
	}
	if _, err := os.Lstat(wants); err == nil {
		t.Error("the unit is still enabled")
	}
	ok(t, os.RemoveAll(filepath.Dir(journal)))
	if got := m.run(t, debian, "postrm", "purge"); got != "" {
		t.Errorf("the purge after a reset says %q", got)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "var/lib/journalet")); err == nil {
		t.Error("the empty directory is still there")
	}
}
