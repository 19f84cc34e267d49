package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// FileName is the file in a pod's directory, <root>/pods/<uid>.
	FileName = "conditions.yaml"
	// Period is how often the files of pods with readiness gates are read.
	Period = time.Second
	// maxFileBytes bounds a file; a longer one counts as unreadable.
	maxFileBytes = 64 << 10
)

// Options configure a Driver; Sink and one of RootDir and Read must be set.
type Options struct {
	// RootDir is the agent's root directory.
	RootDir string
	// Read returns the status of each condition that a pod's file has, none if there is no file. Default: reads the file
	// below RootDir.
	Read func(uid string) (map[string]string, error)
	// Object returns the newest object of a pod of the API server, nil if none is known. May be nil where there are no
	// such pods.
	Object func(uid string) *corev1.Pod
	// Sink receives a pod's conditions when they have changed, one pod after the other. After an error they are reported
	// again.
	Sink func(context.Context, *journaletv1.ReadinessGatesRead) error
	// Period defaults to the constant of this name.
	Period time.Duration
	Log    *slog.Logger
}

// Driver reads the conditions of readiness gates.
type Driver struct {
	opts Options
	wake chan struct{}

	mu   sync.Mutex
	pods map[string]*pod // by UID
}

// pod is a pod that has or had readiness gates: without types nothing is read. types and reported are only replaced,
// never changed.
type pod struct {
	types    []string
	reported map[string]string
	// api: the conditions are in the pod's object. They are read when the object has changed, not every period.
	api, changed bool
	// mustReport makes the driver report the next read in any case. The pod's state of its conditions is unknown,
	// because a pod without gates ignores reports.
	mustReport bool
	// failed is the last error that was logged.
	failed string
}

// New returns a driver. It reads nothing yet.
func New(o Options) *Driver {
	if o.Period == 0 {
		o.Period = Period
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Read == nil {
		o.Read = func(uid string) (map[string]string, error) { return readFile(podDir(o.RootDir, uid)) }
	}
	return &Driver{opts: o, wake: make(chan struct{}, 1), pods: map[string]*pod{}}
}

// Seed adds a pod's conditions from its state in the journal. api: the pod is of the API server.
func (d *Driver) Seed(uid string, types []string, api bool, conditions []*journaletv1.ReadinessGateCondition) {
	d.set(uid, types, api)
	if len(types) > 0 {
		d.SeedPending(&journaletv1.ReadinessGatesRead{Uid: uid, Conditions: conditions})
	} else if len(conditions) > 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pods[uid] = &pod{mustReport: true}
	}
}

// SeedPending adds a fact of the journal that the pod has not handled yet.
func (d *Driver) SeedPending(r *journaletv1.ReadinessGatesRead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pods[r.GetUid()]; p != nil {
		p.reported = map[string]string{}
		for _, c := range r.GetConditions() {
			p.reported[c.GetType()] = c.GetStatus()
		}
	}
}

// Stored handles a stored record.
func (d *Driver) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_ReadinessGatesSet:
			set := k.ReadinessGatesSet
			d.set(messages.RefOf(rec.GetActor()).ID, set.GetTypes(), set.GetApi())
		case *journaletv1.Event_PodForgotten:
			d.forget(k.PodForgotten.GetUid())
		case *journaletv1.Event_PodFinished:
			d.forget(k.PodFinished.GetUid())
		}
	}
}

// forget drops the state of a pod: its next incarnation has no conditions yet.
func (d *Driver) forget(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pods, uid)
}

// Changed reports that the object of a pod at the API server has changed. It does not block.
func (d *Driver) Changed(uid string) {
	if d.mark(uid) {
		d.wakeUp()
	}
}

// mark has a pod read again, and reports whether it is one of the API server with gates.
func (d *Driver) mark(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pods[uid]
	if p == nil || !p.api {
		return false
	}
	p.changed = true
	return true
}

func (d *Driver) set(uid string, types []string, api bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.pods[uid]
	if len(types) == 0 {
		if old != nil {
			d.pods[uid] = &pod{mustReport: true}
		}
		return
	}
	p := &pod{types: types, api: api, changed: true}
	if old != nil {
		p.reported, p.mustReport = old.reported, old.mustReport
	}
	d.pods[uid] = p
	d.wakeUp()
}

func (d *Driver) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run reads files every period, and conditions at the API server when they have changed, until ctx ends. Without a pod
// with gates it only waits.
func (d *Driver) Run(ctx context.Context) error {
	for {
		var next <-chan time.Time
		if d.ReadAll(ctx) {
			next = time.After(d.opts.Period)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		case <-d.wake:
		}
	}
}

// ReadAll reads once for every pod that has readiness gates, except pods whose object has not changed. It reports
// whether to read again after the period: for a file, or for what could not be reported.
func (d *Driver) ReadAll(ctx context.Context) bool {
	d.mu.Lock()
	pods := maps.Clone(d.pods)
	maps.DeleteFunc(pods, func(_ string, p *pod) bool { return len(p.types) == 0 || p.api && !p.changed })
	for _, p := range pods {
		p.changed = false
	}
	d.mu.Unlock()
	again := false
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		p := pods[uid]
		all, known := d.conditions(uid, p)
		failed := known && !d.report(ctx, uid, p, all)
		if failed {
			d.mark(uid)
		}
		again = again || failed || !p.api
	}
	return again
}

// conditions returns the status of each condition that a pod has. known is false where it is to stay as it was: a file
// cannot be read, or no object is known yet.
func (d *Driver) conditions(uid string, p *pod) (all map[string]string, known bool) {
	if p.api {
		return d.ofObject(uid)
	}
	all, err := d.opts.Read(uid)
	if err == nil {
		p.failed = ""
		return all, true
	}
	if p.failed != err.Error() {
		d.opts.Log.Warn("cannot read the conditions of a pod's readiness gates; they stay unchanged",
			"pod", uid, "file", filepath.Join(podDir(d.opts.RootDir, uid), FileName), "error", err)
		p.failed = err.Error()
	}
	return nil, false
}

func (d *Driver) ofObject(uid string) (all map[string]string, known bool) {
	if d.opts.Object == nil {
		return nil, false
	}
	object := d.opts.Object(uid)
	if object == nil {
		return nil, false
	}
	all = map[string]string{}
	for _, c := range object.Status.Conditions {
		all[string(c.Type)] = string(c.Status)
	}
	return all, true
}

// report reports a pod's conditions if they have changed. It returns false if that failed.
func (d *Driver) report(ctx context.Context, uid string, p *pod, all map[string]string) bool {
	now := map[string]string{}
	r := &journaletv1.ReadinessGatesRead{Uid: uid}
	for _, kind := range p.types {
		if status, ok := all[kind]; ok {
			now[kind] = status
			r.Conditions = append(r.Conditions, &journaletv1.ReadinessGateCondition{Type: kind, Status: status})
		}
	}
	d.mu.Lock()
	reported, mustReport := p.reported, p.mustReport
	d.mu.Unlock()
	if maps.Equal(now, reported) && !mustReport {
		return true
	}
	if d.opts.Sink(ctx, r) != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if cur := d.pods[uid]; cur != nil {
		cur.reported, cur.mustReport = now, cur.mustReport && cur != p
	}
	return true
}

func podDir(root, uid string) string { return filepath.Join(root, "pods", uid) }

// readFile reads the file in a pod's directory; nil if the file does not exist. It follows no link out of the
// directory.
func readFile(dir string) (map[string]string, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a directory; the agent creates it when the pod starts", dir))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := bounded.ReadFileIn(root, FileName, maxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, bounded.ErrTooLarge):
		return nil, fmt.Errorf("the file has more than %d bytes; write only the conditions of this pod", maxFileBytes)
	case err != nil:
		return nil, err
	}
	return parse(data)
}

// parse parses a map from condition type to status, quoted or not.
func parse(data []byte) (map[string]string, error) {
	var raw map[string]any
	text, err := bounded.YAMLToJSONStrict(data, maxFileBytes)
	if err == nil {
		err = bounded.JSON(text, len(text), &raw)
	}
	if err != nil {
		return nil, fmt.Errorf("not a map of condition types: %w", err)
	}
	all := map[string]string{}
	for _, kind := range slices.Sorted(maps.Keys(raw)) {
		switch status := raw[kind]; status {
		case true, string(corev1.ConditionTrue):
			all[kind] = string(corev1.ConditionTrue)
		case false, string(corev1.ConditionFalse):
			all[kind] = string(corev1.ConditionFalse)
		case string(corev1.ConditionUnknown):
			all[kind] = string(corev1.ConditionUnknown)
		default:
			return nil, fmt.Errorf("%s: the status must be True, False or Unknown", kind)
		}
	}
	return all, nil
}
