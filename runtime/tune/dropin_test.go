package tune

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

const (
	confD  = "/etc/containerd/conf.d/90-journalet.toml"
	main   = "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n"
	before = `version = 4
imports = ['/etc/containerd/conf.d/*.toml']
[plugins.'io.containerd.cri.v1.images'.registry.configs.x.auth]
password = 'secret'
[plugins.'io.containerd.cri.v1.runtime']
stats_collect_period = ''
enable_selinux = false
`
)

// tuned is the configuration with the drop-in.
var tuned = strings.Replace(before, "period = ''", "period = '24h'", 1)

// newContainerd returns a containerd whose program prints one configuration, and another where the drop-in is read.
func newContainerd(t *testing.T, config, without, with string) *Containerd {
	t.Helper()
	c := &Containerd{Root: t.TempDir(), Config: DefaultConfig, Program: "/usr/bin/containerd", Unit: "containerd"}
	c.write(t, DefaultConfig, config)
	c.write(t, "/without", without)
	c.write(t, "/with", with)
	c.script(t, fmt.Sprintf(`[ "$1 $2 $3 $4" = "--config %[1]s/etc/containerd/config.toml config dump" ] || exit 9
file=without
for read in '%[1]s'/etc/containerd/*/90-journalet.toml; do
	[ ! -f "$read" ] || ! grep -q 24h "$read" || file=with
done
exec cat '%[1]s'/$file`, c.Root))
	must.OK(t, os.MkdirAll(c.path("/etc/containerd/conf.d"), 0o750))
	return c
}

func (c *Containerd) write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(c.path(path)), 0o750))
	must.OK(t, os.WriteFile(c.path(path), []byte(text), 0o600))
}

func (c *Containerd) script(t *testing.T, text string) {
	t.Helper()
	c.write(t, c.Program, "#!/bin/sh\n"+text+"\n")
	must.OK(t, os.Chmod(c.path(c.Program), 0o755))
}

// files returns what is below /etc, with contents of ours as "ours".
func (c *Containerd) files(t *testing.T) string {
	t.Helper()
	var all []string
	must.OK(t, filepath.WalkDir(c.path("/etc/containerd"), func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, c.path("/etc/containerd"))
		if e != nil && e.Type().IsRegular() {
			if data, err := os.ReadFile(path); err == nil && string(data) == Content {
				name += " ours"
			}
		}
		all = append(all, name)
		return err
	}))
	return strings.Join(all, ",")
}

func (c *Change) String() string {
	var all []string
	for _, change := range c.Changes {
		all = append(all, strings.TrimSpace(fmt.Sprint(change.Action, " ", change.Path, " ", change.To)))
	}
	return strings.Join(all, "; ")
}

func TestDropInIsWrittenJudgedAndRemoved(t *testing.T) {
	c := newContainerd(t, main, before, tuned)
	fix, err := c.Fix(t.Context())
	must.OK(t, err)
	if fix.String() != "create "+confD || fix.Restart != "systemctl restart containerd" {
		t.Errorf("%v, %s", fix, fix.Restart)
	}
	untouched := c.files(t)
	must.OK(t, fix.Apply(t.Context()))
	if got := c.files(t); got != ",/conf.d,/conf.d/90-journalet.toml ours,/config.toml" {
		t.Error(got)
	}
	if st, err := os.Stat(c.path(confD)); err != nil || st.Mode() != 0o644 {
		t.Errorf("%v, %v", st, err)
	}
	again, err := c.Fix(t.Context())
	must.OK(t, err)
	if !again.Done() {
		t.Errorf("again: %v", again)
	}
	// For who has a containerd that does not start: no program.
	c.Program = ""
	undo, err := c.Undo()
	must.OK(t, err)
	if undo.String() != "remove "+confD {
		t.Error(undo)
	}
	must.OK(t, undo.Apply(t.Context()))
	if got := c.files(t); got != untouched {
		t.Errorf("%s, want %s", got, untouched)
	}
	undo, err = c.Undo()
	must.OK(t, err)
	if !undo.Done() {
		t.Error(undo)
	}
}

func TestOlderDropInIsSetAsideAndComesBack(t *testing.T) {
	c := newContainerd(t, main, before, tuned)
	c.script(t, fmt.Sprintf("grep -qs 24h '%s' && exec cat '%s'; exec cat '%s'", c.path(confD), c.path("/with"),
		c.path("/without")))
	c.write(t, confD, mark+"\nversion = 3\n")
	fix, err := c.Fix(t.Context())
	must.OK(t, err)
	must.OK(t, fix.Apply(t.Context()))
	if fix.String() != "set aside "+confD+" "+confD+".old; create "+confD {
		t.Error(fix)
	}
	undo, err := c.Undo()
	must.OK(t, err)
	must.OK(t, undo.Apply(t.Context()))
	if got, err := os.ReadFile(c.path(confD)); err != nil || string(got) != mark+"\nversion = 3\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDropInIsWhereTheImportsReadIt(t *testing.T) {
	for name, c := range map[string]struct{ config, want string }{
		"the last of several": {"imports = ['/etc/containerd/a/*.toml', '/etc/containerd/b/*', '/etc/x.toml']",
			"create /etc/containerd/b; create /etc/containerd/b/90-journalet.toml"},
		"one that is there": {"imports = ['/etc/containerd/conf.d/*.toml', '/etc/containerd/b/*']", "create " + confD},
		"relative":          {"imports = ['conf.d/*.toml']", "create " + confD},
		"a missing directory": {"imports = ['/etc/containerd/deep/er/*.toml']",
			"create /etc/containerd/deep/er; create /etc/containerd/deep/er/90-journalet.toml"},
		"of names that match": {"imports = ['/etc/containerd/conf.d/9*.toml', '/etc/containerd/b/1*.toml']",
			"create " + confD},
		"not in a pattern of directories": {"imports = ['/etc/containerd/conf.d/*.toml', '/etc/*/x/*.toml']",
			"create " + confD},
	} {
		t.Run(name, func(t *testing.T) {
			fix, err := newContainerd(t, c.config, before, tuned).Fix(t.Context())
			must.OK(t, err)
			if fix.String() != c.want {
				t.Errorf("%v, want %s", fix, c.want)
			}
		})
	}
}

func TestContainerdWithoutAConfigurationGetsOne(t *testing.T) {
	c := newContainerd(t, main, before, before)
	must.OK(t, os.RemoveAll(c.path("/etc")))
	c.script(t, fmt.Sprintf("[ -e '%s' ] && exec cat '%s'; exec cat '%s'", c.path(DefaultConfig), c.path("/with"),
		c.path("/without")))
	c.write(t, "/with", tuned)
	fix, err := c.Fix(t.Context())
	must.OK(t, err)
	must.OK(t, fix.Apply(t.Context()))
	if got := c.files(t); got != ",/config.toml ours" {
		t.Error(got)
	}
	undo, err := c.Undo()
	must.OK(t, err)
	must.OK(t, undo.Apply(t.Context()))
	if got := c.files(t); got != "" {
		t.Error(got)
	}
}

// A drop-in that does anything else is removed before anybody restarts containerd.
func TestDropInThatDoesMoreOrNothingIsRemovedAgain(t *testing.T) {
	for name, c := range map[string]struct{ with, want string }{
		"the section is replaced": {strings.Replace(tuned, "enable_selinux = false\n", "", 1),
			"would change plugins.io.containerd.cri.v1.runtime.enable_selinux, too"},
		"another setting differs": {strings.Replace(tuned, "'secret'", "'other secret'", 1), "auth.password, too"},
		"a section is gone": {"[plugins.'io.containerd.cri.v1.runtime']\nstats_collect_period = '24h'\n",
			"imports, too"},
		"a later file wins": {strings.Replace(before, "period = ''", "period = '5s'", 1), "every 5s with the drop-in"},
		"it is not read":    {before, "or it reads no drop-ins"},
		"no text":           {"\x00\xff", "is no configuration"},
		"no configuration":  {"a = 1\n", "is no configuration of containerd"},
		"an odd period":     {strings.Replace(before, "period = ''", "period = 'secret'", 1), "is no duration"},
		"no end":            {strings.Repeat("# secret\n", 1<<18), "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ctrd := newContainerd(t, "imports = ['more/*.toml']", before, c.with)
			untouched := ctrd.files(t)
			fix, err := ctrd.Fix(t.Context())
			must.OK(t, err)
			if err := fix.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "nothing was changed") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %s", err, c.want)
			}
			if got := ctrd.files(t); got != untouched {
				t.Errorf("%s, want %s", got, untouched)
			}
		})
	}
	t.Run("containerd fails", func(t *testing.T) {
		c := newContainerd(t, main, before, tuned)
		fix, err := c.Fix(t.Context())
		must.OK(t, err)
		c.script(t, "echo first >&2; echo 'containerd: cannot' >&2; exit 1")
		if err := fix.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 1: containerd: cannot") {
			t.Error(err)
		}
		if got := c.files(t); strings.Contains(got, "ours") {
			t.Error(got)
		}
	})
}

func TestWhatCannotBeFixedIsRefusedAndNothingChanges(t *testing.T) {
	for name, c := range map[string]struct {
		config, without string
		change          func(*testing.T, *Containerd)
		want            string
	}{
		"no imports": {"version = 2\n", before, nil,
			`add this line before its first section, and repeat the command: imports = ["/etc/containerd/conf.d/*.toml"]`},
		"other imports": {"imports = ['/etc/x.toml']\n", before, nil,
			`add "/etc/containerd/conf.d/*.toml" to its imports`},
		"empty imports":               {"version = 3\nimports = []\n", before, nil, "reads no drop-ins"},
		"imports of one file":         {"imports = ['/etc/containerd/x.toml']", before, nil, "reads no drop-ins"},
		"imports that are no pattern": {"imports = ['/etc/containerd/conf.d/90-journalet.tom?']", before, nil, "no drop-ins"},
		"imports of other type":       {"imports = 7", before, nil, "is no configuration that can be read"},
		"many imports": {"imports = [" + strings.Repeat("'a',", 300) + "]", before, nil,
			"more than 256 imports"},
		"garbage":            {"\x7fELF\x00", before, nil, "is no configuration that can be read"},
		"huge":               {strings.Repeat("# long\n", 1<<18), before, nil, "more than 1048576 bytes"},
		"an unreadable dump": {main, "nothing", nil, "configuration cannot be read"},
		"no program":         {main, before, func(_ *testing.T, c *Containerd) { c.Program = "/none" }, "cannot be read"},
		"another configuration that is missing": {main, before, func(t *testing.T, c *Containerd) {
			c.script(t, "exec cat '"+c.path("/without")+"'")
			c.Config = "/opt/none.toml"
		}, "no such file"},
		"a link in its place": {main, before, func(t *testing.T, c *Containerd) {
			must.OK(t, os.Symlink("/etc/passwd", c.path(confD)))
		}, "is no regular file: remove it first"},
		"a pipe in its place": {main, before, func(t *testing.T, c *Containerd) {
			must.OK(t, unix.Mkfifo(c.path(confD), 0o600))
		}, "is no regular file"},
		"a file of another in its place": {main, before, func(t *testing.T, c *Containerd) {
			c.write(t, confD, "version = 3\n")
		}, "is not of journalet: rename it first"},
		"a file for the directory": {main, before, func(t *testing.T, c *Containerd) {
			must.OK(t, os.Remove(c.path("/etc/containerd/conf.d")))
			c.write(t, "/etc/containerd/conf.d", "")
		}, "is no directory"},
		"a pipe for the configuration": {main, before, func(t *testing.T, c *Containerd) {
			must.OK(t, os.Remove(c.path(DefaultConfig)))
			must.OK(t, unix.Mkfifo(c.path(DefaultConfig), 0o600))
		}, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			ctrd := newContainerd(t, c.config, c.without, tuned)
			if c.change != nil {
				c.change(t, ctrd)
			}
			untouched := ctrd.files(t)
			if fix, err := ctrd.Fix(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v, want %s", fix, err, c.want)
			}
			if got := ctrd.files(t); got != untouched {
				t.Errorf("%s, want %s", got, untouched)
			}
		})
	}
}

func TestContainerdWithoutTheSettingHasNothingToFix(t *testing.T) {
	for _, without := range []string{
		"[plugins.'io.containerd.cri.v1.runtime']\na = 1\n",
		"[plugins.'io.containerd.grpc.v1.cri']\nstats_collect_period = 10\n",
	} {
		c := newContainerd(t, "\x00", without, tuned)
		fix, err := c.Fix(t.Context())
		must.OK(t, err)
		if !fix.Done() || !strings.Contains(fix.Note, "before 2.3") || fix.Restart != "" {
			t.Errorf("%v, %+v", fix, fix)
		}
	}
}

// containerd may not start any more, and its configuration may be gone or garbage by then.
func TestUndoNeedsNoConfigurationThatCanBeRead(t *testing.T) {
	for name, config := range map[string]string{"garbage": "\x00", "no imports": "version = 3", "a missing one": ""} {
		t.Run(name, func(t *testing.T) {
			c := newContainerd(t, config, before, tuned)
			if config == "" {
				must.OK(t, os.Remove(c.path(DefaultConfig)))
			}
			c.write(t, confD, Content)
			undo, err := c.Undo()
			must.OK(t, err)
			must.OK(t, undo.Apply(t.Context()))
			if got := c.files(t); strings.Contains(got, "ours") {
				t.Error(got)
			}
		})
	}
	c := newContainerd(t, main, before, tuned)
	must.OK(t, os.Symlink("/etc/passwd", c.path(confD)))
	if undo, err := c.Undo(); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v, %v", undo, err)
	}
}

func TestDirectoryThatCannotBeWrittenIsReportedBefore(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root may write anywhere but on a file system that is read-only, such as /proc.
		c := newContainerd(t, "imports = ['/proc/sys/*.toml']", before, tuned)
		c.Root, c.Config, c.Program = "/", c.path(c.Config), c.path(c.Program)
		c.script(t, "exec cat '"+filepath.Join(filepath.Dir(c.Config), "../../without")+"'")
		if fix, err := c.Fix(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot write into /proc/sys") {
			t.Errorf("%v, %v", fix, err)
		}
		return
	}
	c := newContainerd(t, main, before, tuned)
	must.OK(t, os.Chmod(c.path("/etc/containerd/conf.d"), 0o500))
	if fix, err := c.Fix(t.Context()); err == nil || !strings.Contains(err.Error(), "run it as root") {
		t.Errorf("%v, %v", fix, err)
	}
}
