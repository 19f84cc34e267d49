package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// name is the program's.
	name = "journalet"
	// packaged is where packages have the program.
	packaged = "/usr/bin/journalet"
	// kubelet is where kubelet.service has its program.
	kubelet = "/usr/bin/kubelet"
	// UnitPath is the unit.
	UnitPath = "/etc/systemd/system/journalet.service"
	// FlagsPath is the file with the agent's flags, which the unit reads.
	FlagsPath = "/etc/default/journalet"
	// pods is the default directory of manifests; their env may be secret.
	pods = "/etc/journalet/pods"
	// maxUnit bounds a unit that is read, in bytes.
	maxUnit = 1 << 20
	// old is what a file is named after that had been changed.
	old = ".old"
)

// Action is what becomes of a path.
type Action string

// The actions.
const (
	Create    Action = "create"    // it is not there
	Replace   Action = "replace"   // it is there, and other
	SetAside  Action = "set aside" // the same, and what is there is renamed: it may have been changed by hand
	Unchanged Action = "unchanged" // it is there as it is to be, or has been changed by its owner, the operator
	Remove    Action = "remove"
	Keep      Action = "keep" // it is the operator's, and stays
)

// Change is one path of an installation.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	// To is where a link leads, or the name that is given to what is set aside.
	To string `json:"to,omitempty"`
}

// Options are what is installed, and where.
type Options struct {
	// Root is "/", or a directory that is to be the root of another machine: an image that is built.
	Root string
	// Prefix is the directory whose bin has the program: /usr/local.
	Prefix string
	// Program is the file to copy, Links are the other names that it has beside it.
	Program string
	Links   []string
	// Unit is the systemd unit for the program in /usr/local/bin, Flags the file with the agent's flags.
	Unit, Flags []byte
}

// Plan is what an installation or its removal does. Nothing has changed yet.
type Plan struct {
	Changes []Change
	steps   []func() error
}

// Apply carries the plan out, in its order. Its error names the path at which it stopped; the same
// options can be planned again.
func (p *Plan) Apply() error {
	for i, step := range p.steps {
		if err := step(); err != nil {
			return fmt.Errorf("%s: %w", p.Changes[i].Path, err)
		}
	}
	return nil
}

func (p *Plan) add(path string, action Action, to string, step func() error) {
	p.Changes = append(p.Changes, Change{path, action, to})
	p.steps = append(p.steps, step)
}

func nothing() error { return nil }

// at returns a path below the root.
func (o *Options) at(path string) string { return filepath.Join(o.Root, path) }

func (o *Options) bin(file string) string { return filepath.Join(o.Prefix, "bin", file) }

// unit returns the unit for the program below Prefix.
func (o *Options) unit() []byte {
	return []byte(strings.ReplaceAll(string(o.Unit), "/usr/local/bin/", o.bin("")+"/"))
}

// Install plans an installation, or an upgrade of one. It fails beside a package, and if a path is of something else.
func Install(o Options) (*Plan, error) {
	if !filepath.IsAbs(o.Prefix) {
		return nil, fmt.Errorf("the prefix %s is no absolute path", o.Prefix)
	}
	if _, err := os.Lstat(o.at(packaged)); err == nil {
		return nil, fmt.Errorf("%s is there: a package has installed it; upgrade that package, or remove it first",
			o.at(packaged))
	}
	p := &Plan{}
	if err := p.program(&o); err != nil {
		return nil, err
	}
	for _, link := range o.Links {
		if err := p.link(&o, o.bin(link)); err != nil {
			return nil, err
		}
	}
	if err := p.unitFile(&o); err != nil {
		return nil, err
	}
	err := p.ifMissing(&o, FlagsPath, func() error { return put(o.at(FlagsPath), 0o644, o.Flags) })
	if err != nil {
		return nil, err
	}
	return p, p.ifMissing(&o, pods, func() error { return os.MkdirAll(o.at(pods), 0o750) })
}

// ifMissing plans to create what is the operator's once it is there.
func (p *Plan) ifMissing(o *Options, path string, create func() error) error {
	there, err := exists(o.at(path))
	switch {
	case err != nil:
		return err
	case there:
		p.add(path, Unchanged, "", nothing)
	default:
		p.add(path, Create, "", create)
	}
	return nil
}

// IsKubelet reports whether the program is in the kubelet's place (ADR 060).
func (o *Options) IsKubelet() bool {
	to, err := os.Readlink(o.at(kubelet))
	return err == nil && to == o.bin(name)
}

// Uninstall plans the removal. It fails while the program is in the kubelet's place. What is the operator's stays, and
// so do pods, journal and volumes.
func Uninstall(o Options) (*Plan, error) {
	if o.IsKubelet() {
		return nil, fmt.Errorf("%s leads to the program: give the kubelet its place back first", kubelet)
	}
	p := &Plan{}
	unit, err := o.read(UnitPath)
	switch {
	case err != nil:
		return nil, err
	case unit != nil && string(unit) == string(o.unit()):
		p.remove(&o, UnitPath)
	case unit != nil:
		p.setAside(&o, UnitPath)
	}
	for _, link := range o.Links {
		to, err := os.Readlink(o.at(o.bin(link)))
		if err == nil && to == name {
			p.remove(&o, o.bin(link))
		}
	}
	there, err := exists(o.at(o.bin(name)))
	if err != nil {
		return nil, err
	}
	if there {
		p.remove(&o, o.bin(name))
	}
	for _, path := range []string{FlagsPath, filepath.Dir(pods)} {
		if there, err := exists(o.at(path)); err != nil {
			return nil, err
		} else if there {
			p.add(path, Keep, "", nothing)
		}
	}
	return p, nil
}

// read returns a file below the root, nil if it is not there. It is a regular file, or an error.
func (o *Options) read(path string) ([]byte, error) {
	there, err := o.regular(path)
	if err != nil || !there {
		return nil, err
	}
	return bounded.ReadFile(o.at(path), maxUnit)
}

// regular reports whether a path below the root is there. It is a regular file, or an error.
func (o *Options) regular(path string) (there bool, err error) {
	info, err := os.Lstat(o.at(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !info.Mode().IsRegular():
		return false, fmt.Errorf("%s is no regular file: remove it first", o.at(path))
	}
	return err == nil, err
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
