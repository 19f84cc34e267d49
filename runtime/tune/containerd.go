package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/program"
)

const (
	// DefaultConfig is where containerd has its configuration.
	DefaultConfig = "/etc/containerd/config.toml"
	// runtimePlugin is the section of the CRI runtime from version 3 of the configuration on, periodKey its setting.
	runtimePlugin = "io.containerd.cri.v1.runtime"
	periodKey     = "stats_collect_period"
	// dumpTimeout bounds one run of `containerd config dump`, which takes 0.1 s on an idle machine.
	dumpTimeout = 10 * time.Second
	// maxMessage bounds what is shown of containerd's errors, in bytes.
	maxMessage = 512
	// maxImports bounds the patterns of a configuration.
	maxImports = 256
)

// Containerd is a containerd of a machine.
type Containerd struct {
	// Root is "/", or in tests the directory that is the machine's root.
	Root string
	// Config is the path of its configuration.
	Config string
	// Program is the path of what the next start runs, Name its own name for itself; "" if they are not known.
	Program, Name string
	// Unit is the unit of systemd that runs it, "" if none does.
	Unit string
	// PID is its process, 0 if none is known.
	PID int
	// LogLevel is what it was started with, which wins over its configuration; "" if it was not.
	LogLevel string
}

// path returns a path of the machine as one of this process.
func (c *Containerd) path(p string) string { return filepath.Join(c.Root, p) }

// Restart returns the command after which containerd has another configuration.
func (c *Containerd) Restart() string {
	switch {
	case c.Unit != "":
		return "systemctl restart " + c.Unit
	case c.PID != 0:
		return fmt.Sprintf("restart containerd, process %d", c.PID)
	}
	return "systemctl restart containerd"
}

// Settings returns the settings of the configuration as the next start will have it.
func (c *Containerd) Settings(ctx context.Context) (Settings, error) {
	tree, err := c.dump(ctx)
	if err != nil {
		return Settings{}, err
	}
	return fromDump(tree)
}

// dump returns the configuration of all files together, as containerd itself reads it. Its values may be secret: they
// are compared, and not shown.
func (c *Containerd) dump(ctx context.Context) (map[string]any, error) {
	if c.Program == "" {
		return nil, errors.New("the program of containerd is not known")
	}
	ctx, cancel := context.WithTimeout(ctx, dumpTimeout)
	defer cancel()
	cmd := program.Command(ctx, c.path(c.Program), "--config", c.path(c.Config), "config", "dump")
	if c.Name != "" {
		cmd.Args[0] = c.Name
	}
	cmd.WaitDelay = time.Second
	out, problems := &program.Head{Most: maxConfigBytes + 1}, &program.Head{Most: maxMessage << 3}
	cmd.Stdout, cmd.Stderr = out, problems
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("`%s config dump`: %w%s", c.Program, err, lastLine(string(problems.Kept)))
	}
	var tree map[string]any
	if err := bounded.TOML(out.Kept, maxConfigBytes, &tree); err != nil {
		if errors.Is(err, bounded.ErrTooLarge) {
			return nil, fmt.Errorf("what `%s config dump` prints: %w", c.Program, err)
		}
		return nil, fmt.Errorf("what `%s config dump` prints is no configuration", c.Program)
	}
	if _, is := tree["plugins"].(map[string]any); !is {
		return nil, fmt.Errorf("what `%s config dump` prints is no configuration of containerd", c.Program)
	}
	return tree, nil
}

// lastLine returns the last line of a program's errors, after a colon: containerd logs before it fails.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return ": " + plain.Cut(text[strings.LastIndexByte(text, '\n')+1:], maxMessage)
}

// errNoImports means that containerd reads no drop-ins.
var errNoImports = errors.New("no imports")

// places returns the paths where containerd reads a drop-in of this name, the path that wins first. Without a
// configuration, that is the configuration's own path: containerd reads nothing else then.
func (c *Containerd) places() ([]string, error) {
	data, err := bounded.ReadFile(c.path(c.Config), maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) && c.Config == DefaultConfig {
		return []string{c.Config}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("containerd's configuration: %w", err)
	}
	if isOurs(data) {
		return []string{c.Config}, nil
	}
	var config struct {
		Imports []string `toml:"imports"`
	}
	if err := bounded.TOML(data, maxConfigBytes, &config); err != nil {
		return nil, fmt.Errorf("%s is no configuration that can be read: %w", c.Config, err)
	}
	if len(config.Imports) > maxImports {
		return nil, fmt.Errorf("%s has more than %d imports", c.Config, maxImports)
	}
	var found []string
	for _, pattern := range config.Imports {
		dir, base := filepath.Split(filepath.Clean(pattern))
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(c.Config), dir)
		}
		// containerd takes a path for a pattern only if it has an asterisk.
		if matches, err := filepath.Match(base, dropIn); err != nil || !matches ||
			!strings.Contains(base, "*") || strings.ContainsAny(dir, `*?[\`) {
			continue
		}
		found = append([]string{filepath.Join(dir, dropIn)}, found...)
	}
	if len(found) == 0 {
		usual := filepath.Join(filepath.Dir(c.Config), "conf.d", "*.toml")
		if config.Imports != nil { // a second line of this name would be an error
			return nil, fmt.Errorf("%s reads no drop-ins (%w): add %q to its imports, and repeat the command", c.Config,
				errNoImports, usual)
		}
		return nil, fmt.Errorf("%s reads no drop-ins (%w): add this line before its first section, and repeat the command: "+
			"imports = [%q]", c.Config, errNoImports, usual)
	}
	return found, nil
}
