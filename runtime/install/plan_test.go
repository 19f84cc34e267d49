package install

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// machine returns options for an empty tree, and a program.
func machine(t *testing.T) Options {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	must.OK(t, os.WriteFile(program, bytes.Repeat([]byte("v1"), 1<<20), 0o600))
	return Options{
		Root: t.TempDir(), Prefix: "/usr/local", Program: program,
		Links: []string{"kubectl-journalet", "kubectl_complete-journalet"},
		Unit:  []byte("ExecStart=/usr/local/bin/journalet run\n"), Flags: []byte("JOURNALET_ARGS=\n"),
	}
}

// done carries a plan out and returns its changes, one a line.
func done(t *testing.T, plan func(Options) (*Plan, error), o Options) string {
	t.Helper()
	p, err := plan(o)
	must.OK(t, err)
	var text strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintln(&text, c.Action, c.Path, c.To)
	}
	must.OK(t, p.Apply())
	return text.String()
}

func compare(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%swant\n%s", what, got, want)
	}
}

const installed = `create /usr/local/bin/journalet 
create /usr/local/bin/kubectl-journalet journalet
create /usr/local/bin/kubectl_complete-journalet journalet
create /etc/systemd/system/journalet.service 
create /etc/default/journalet 
create /etc/journalet/pods 
`

func TestInstallationIsRepeatedUpgradedAndRemoved(t *testing.T) {
	o := machine(t)
	compare(t, "the first time", done(t, Install, o), installed)
	info, err := os.Stat(o.at("/usr/local/bin/journalet"))
	must.OK(t, err)
	if info.Mode().Perm() != 0o755 || info.Size() != 2<<20 {
		t.Errorf("the program: %v, %d bytes", info.Mode(), info.Size())
	}
	again := strings.NewReplacer("create", "unchanged").Replace(installed)
	compare(t, "again", done(t, Install, o), again)

	must.OK(t, os.WriteFile(o.at(FlagsPath), []byte("JOURNALET_ARGS=--v=4\n"), 0o600))
	must.OK(t, os.WriteFile(o.Program, bytes.Repeat([]byte("v2"), 1<<20), 0o600))
	o.Unit = append(o.Unit, "Restart=always\n"...)
	upgraded := strings.NewReplacer("unchanged /usr/local/bin/journalet", "replace /usr/local/bin/journalet",
		"unchanged "+UnitPath+" ", "set aside "+UnitPath+" "+UnitPath+".old\ncreate "+UnitPath+" ").Replace(again)
	compare(t, "an upgrade", done(t, Install, o), upgraded)
	for path, want := range map[string]string{
		FlagsPath: "JOURNALET_ARGS=--v=4\n", UnitPath: string(o.Unit), UnitPath + ".old": string(o.Unit[:len(o.Unit)-15]),
	} {
		if got, err := os.ReadFile(o.at(path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}

	compare(t, "the removal", done(t, Uninstall, o), `remove /etc/systemd/system/journalet.service 
remove /usr/local/bin/kubectl-journalet 
remove /usr/local/bin/kubectl_complete-journalet 
remove /usr/local/bin/journalet 
keep /etc/default/journalet 
keep /etc/journalet 
`)
	left, err := os.ReadDir(o.at("/usr/local/bin"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	compare(t, "the removal of nothing", done(t, Uninstall, o), "keep /etc/default/journalet \nkeep /etc/journalet \n")
}

func TestUnitNamesTheProgramOfThePrefix(t *testing.T) {
	o := machine(t)
	o.Prefix = "/opt/journalet"
	done(t, Install, o)
	got, err := os.ReadFile(o.at(UnitPath))
	must.OK(t, err)
	if string(got) != "ExecStart=/opt/journalet/bin/journalet run\n" {
		t.Errorf("%s", got)
	}
}

func TestUnitThatWasChangedIsSetAside(t *testing.T) {
	o := machine(t)
	done(t, Install, o)
	must.OK(t, os.WriteFile(o.at(UnitPath), []byte("mine\n"), 0o600))
	if got := done(t, Uninstall, o); !strings.HasPrefix(got, "set aside "+UnitPath+" "+UnitPath+".old\n") {
		t.Error(got)
	}
	if got, err := os.ReadFile(o.at(UnitPath + ".old")); err != nil || string(got) != "mine\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// What is of somebody else stays, and nothing at all is changed.
func TestWhatIsOfOthersIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(o *Options) error
		want    string
	}{
		"a package": {func(o *Options) error { return put(o.at(packaged), 0o755, nil) }, "a package has installed it"},
		"a directory for the program": {func(o *Options) error {
			return os.MkdirAll(o.at("/usr/local/bin/journalet"), 0o750)
		}, "is no regular file"},
		"a plugin of another": {func(o *Options) error {
			return put(o.at("/usr/local/bin/kubectl-journalet"), 0o755, nil)
		}, "is no link"},
		"a link to another": {func(o *Options) error {
			must.OK(t, os.MkdirAll(o.at("/usr/local/bin"), 0o750))
			return os.Symlink("other", o.at("/usr/local/bin/kubectl-journalet"))
		}, "leads to other"},
		"a masked unit": {func(o *Options) error {
			must.OK(t, os.MkdirAll(o.at("/etc/systemd/system"), 0o750))
			return os.Symlink("/dev/null", o.at(UnitPath))
		}, "is no regular file"},
		"a prefix that is no path": {func(o *Options) error {
			o.Prefix = "local"
			return nil
		}, "no absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			o := machine(t)
			must.OK(t, c.prepare(&o))
			before := tree(t, o.Root)
			if _, err := Install(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if after := tree(t, o.Root); after != before {
				t.Errorf("%s, was %s", after, before)
			}
		})
	}
}

func TestPlanThatFailsNamesThePath(t *testing.T) {
	o := machine(t)
	p, err := Install(o)
	must.OK(t, err)
	must.OK(t, os.Remove(o.Program))
	if err := p.Apply(); err == nil || !strings.HasPrefix(err.Error(), "/usr/local/bin/journalet: ") {
		t.Error(err)
	}
	if left := tree(t, o.Root); strings.Contains(left, ".journalet") {
		t.Errorf("a part is left: %s", left)
	}
}

// tree returns the paths below a directory.
func tree(t *testing.T, root string) string {
	t.Helper()
	var all []string
	must.OK(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return strings.Join(all, " ")
}
