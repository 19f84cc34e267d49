package oom

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/euank/go-kmsg-parser/kmsgparser"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// retry is the pause before the log is opened again after an error.
	retry = 30 * time.Second
	// tries and pause bound the wait until the runtime shows a container that has just started: 2 s in all.
	tries = 10
	pause = 200 * time.Millisecond
)

// Place is a container, by its cgroup.
type Place struct {
	// UID is the pod's.
	UID string
	// Container is its name, ID its id in the runtime; both are empty where only the pod is known.
	Container, ID string
	// Path is the cgroup that was found: the container's, or the pod's if the container is not known.
	Path string
	// PodPath is the pod's cgroup, empty if it has none.
	PodPath string
}

// Options configure a Driver. Find and Sink must be set.
type Options struct {
	// Find returns the container, or else the pod, that a cgroup belongs to; false for one outside all pods.
	Find func(cgroup string) (Place, bool)
	// Sink records a fact.
	Sink func(context.Context, messages.Ref, *journaletv1.Event) error
	// Top returns the cgroup above all pods; empty for none.
	Top func() string
	// Open opens the kernel's log; nil: /dev/kmsg.
	Open func() (kmsgparser.Parser, error)
	// Now and After are the clock.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Driver watches the kernel's log.
type Driver struct {
	o      Options
	bounds *bounds
}

// New returns a driver that Run runs.
func New(o Options) *Driver {
	if o.Open == nil {
		o.Open = kmsgparser.NewParser
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Top == nil {
		o.Top = func() string { return "" }
	}
	return &Driver{o: o, bounds: newBounds()}
}

// Run records kills until ctx ends. A machine that does not let the agent read the kernel's log is reported once: the
// agent keeps running without.
func (d *Driver) Run(ctx context.Context) error {
	reported := false
	for {
		err := d.watch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !reported {
			d.o.Log.Warn("kills for lack of memory are not reported: the kernel's log cannot be read", "error", err)
			reported = true
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.o.After(retry):
		}
	}
}

// watch reads the log from its end on.
func (d *Driver) watch(ctx context.Context) error {
	log, err := d.o.Open()
	if err != nil {
		return err
	}
	log.SetLogger(quiet{})
	if err := log.SeekEnd(); err != nil {
		return errors.Join(fmt.Errorf("go to the end of the log: %w", err), log.Close())
	}
	lines := log.Parse()
	defer func() {
		_ = log.Close()
		go func() {
			for range lines { // what reads the log ends only when it can pass on what it has read
			}
		}()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-lines:
			if !ok {
				return errors.New("the log has ended")
			}
			if err := d.line(ctx, line); err != nil {
				return err
			}
		}
	}
}

// line records a line of the log if it is a kill.
func (d *Driver) line(ctx context.Context, line kmsgparser.Message) error {
	if line.Priority < 0 || line.Priority >= kernelFacility {
		return nil // written by a process
	}
	k, ok := parse(line.Message)
	if !ok {
		return nil
	}
	at, scope := d.find(ctx, k), journaletv1.OomScope_OOM_SCOPE_NODE
	if k.limit != "" {
		if scope = d.scope(k, at); scope == journaletv1.OomScope_OOM_SCOPE_UNSPECIFIED {
			return nil // a service of the machine, at a limit of its own
		}
	}
	about, key := messages.Node, ""
	if at.UID != "" {
		about, key = messages.Pod(at.UID), at.UID+"/"+at.Container
	}
	omitted, ok := d.bounds.allow(key, d.o.Now())
	if !ok {
		return nil
	}
	d.o.Log.Warn("the kernel killed a process for lack of memory", "process", k.process, "pid", k.pid, "pod", at.UID,
		"container", at.Container, "cgroup", k.cgroup, "limit of", k.limit)
	return d.o.Sink(ctx, about, messages.NewEvent(&journaletv1.OomKillObserved{
		Scope: scope, Process: k.process, Pid: k.pid, Uid: at.UID, Container: at.Container, ContainerId: at.ID,
		Omitted: omitted,
	}))
}

// find returns where the process was. The cgroup of a process is believed only below the limit that it was killed for:
// see parse. The runtime may show a container a moment after its start.
func (d *Driver) find(ctx context.Context, k kill) Place {
	path := k.cgroup
	if k.limit != "" && !Below(path, k.limit) {
		path = k.limit
	}
	for n := 1; ; n++ {
		at, ok := d.o.Find(path)
		if !ok || at.Container != "" || n == tries {
			return at
		}
		select {
		case <-ctx.Done():
			return at
		case <-d.o.After(pause):
		}
	}
}

// scope returns whose limit a kill was for; unspecified for a kill that is not about pods.
func (d *Driver) scope(k kill, at Place) journaletv1.OomScope {
	switch {
	case at.Container != "" && Below(k.limit, at.Path):
		return journaletv1.OomScope_OOM_SCOPE_CONTAINER
	case at.PodPath != "" && k.limit == at.PodPath:
		return journaletv1.OomScope_OOM_SCOPE_POD
	case at.PodPath != "" && Below(k.limit, at.PodPath):
		return journaletv1.OomScope_OOM_SCOPE_CONTAINER // a container that the runtime does not show any more
	case k.limit == d.o.Top(): // no class has a limit
		return journaletv1.OomScope_OOM_SCOPE_PODS
	}
	return journaletv1.OomScope_OOM_SCOPE_UNSPECIFIED
}

// Below reports whether a cgroup is another or lies below it.
func Below(path, top string) bool {
	return path == top || strings.HasPrefix(path, strings.TrimSuffix(top, "/")+"/")
}

// quiet drops what the parser says about lines that it cannot read: a process may have written them.
type quiet struct{}

func (quiet) Infof(string, ...any)    {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Errorf(string, ...any)   {}
