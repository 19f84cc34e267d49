package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a directory with a PATH and a lab of its own, so that a containerd of the real machine does not count.
type machine struct{ path, lab string }

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{filepath.Join(t.TempDir(), "bin"), t.TempDir()}
	if err := os.MkdirAll(m.path, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"cut", "grep", "head", "sort"} {
		found, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(found, filepath.Join(m.path, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// install puts programs into dir; containerd prints version, as its --version does.
func install(t *testing.T, dir, version string, programs ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		script := "#!/bin/sh\necho '" + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a part of lab.sh with settings; it returns its last line, which is the error where it is not true.
func (m machine) run(t *testing.T, script string, settings ...string) (string, bool) {
	t.Helper()
	const sources = "set -euo pipefail; source lib/common.sh; source lib/variant.sh; source lib/runtime.sh\n"
	cmd := exec.Command("bash", "-c", sources+script)
	cmd.Env = append([]string{
		"PATH=" + m.path + ":" + m.lab + "/bin", "LAB_DIR=" + m.lab, "HOME_DIR=" + m.lab, "LAB_NAME=x",
	}, settings...)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], err == nil
}

// choose runs choose_variant with LAB_CONTAINERD=setting; it returns the variant and true, or the error and false.
func (m machine) choose(t *testing.T, runtime, setting string) (string, bool) {
	t.Helper()
	return m.run(t, `source "lib/$LAB_RUNTIME.sh"; choose_variant; echo "$LAB_CONTAINERD"`,
		"LAB_RUNTIME="+runtime, "LAB_CONTAINERD="+setting)
}

// What containerd --version prints, by who built it.
const (
	debian12 = "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3"
	docker   = "containerd containerd.io v2.1.3 c787fb98911740dd3ff2d0e45ce88cdf01410486"
	tooOld   = "containerd github.com/containerd/containerd 1.5.9~ds1 1.5.9~ds1-1"
)

func TestTheMachinesContainerdIsTakenWhereItIsComplete(t *testing.T) {
	all := []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc"}
	for name, c := range map[string]struct {
		programs []string // in PATH
		version  string
		want     string
	}{
		"Debian's":   {all, debian12, "system"},
		"Docker's":   {all, docker, "system"},
		"no runc":    {all[:3], debian12, "debian"},
		"too old":    {all, tooOld, "debian"},
		"no version": {all, "", "debian"},
		"nothing":    {nil, "", "debian"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			install(t, m.path, c.version, c.programs...)
			if got, ok := m.choose(t, "containerd", "auto"); !ok || got != c.want {
				t.Errorf("auto is %q (%v), want %q", got, ok, c.want)
			}
		})
	}
	t.Run("a lab's", func(t *testing.T) {
		m := newMachine(t)
		install(t, filepath.Join(m.lab, "bin"), debian12, all...)
		if got, ok := m.choose(t, "containerd", "auto"); !ok || got != "debian" {
			t.Errorf("auto is %q (%v), want debian", got, ok)
		}
	})
}

// CRI-O is built in any case: only runc is chosen.
func TestRuncOfCRIOIsTheMachinesWhereItHasOne(t *testing.T) {
	m := newMachine(t)
	if got, ok := m.choose(t, "crio", "auto"); !ok || got != "debian" {
		t.Errorf("without runc auto is %q (%v), want debian", got, ok)
	}
	install(t, m.path, "runc version 1.1.5", "runc")
	if got, ok := m.choose(t, "crio", "auto"); !ok || got != "system" {
		t.Errorf("with runc auto is %q (%v), want system", got, ok)
	}
}

func TestALabKeepsTheContainerdItWasCreatedWith(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, setting string
		want, refused     string // the variant, or a part of the error
	}{
		"by default":               {recorded: "built", setting: "auto", want: "built"},
		"named once more":          {recorded: "debian", setting: "debian", want: "debian"},
		"another":                  {recorded: "built", setting: "debian", refused: "created with LAB_CONTAINERD=built"},
		"removed from the machine": {recorded: "system", setting: "auto", refused: "no containerd in PATH"},
		"never there":              {setting: "system", refused: "no containerd in PATH"},
		"an unknown variant":       {setting: "docker", refused: "is none of"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if c.recorded != "" {
				if err := os.WriteFile(filepath.Join(m.lab, "variant"), []byte(c.recorded+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, ok := m.choose(t, "containerd", c.setting)
			if ok && (c.refused != "" || got != c.want) || !ok && (c.refused == "" || !strings.Contains(got, c.refused)) {
				t.Errorf("LAB_CONTAINERD=%s: %q (%v), want %q%q", c.setting, got, ok, c.want, c.refused)
			}
		})
	}
}
