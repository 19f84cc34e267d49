package persistentvolume

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/journalet/journalet/runtime/clock"
)

const (
	// firstUnstage and maxUnstage bound the pause before volumes that no pod claims are unstaged again; it doubles between
	// the two. kubelet: from 0.5 s to 2 min 2 s.
	firstUnstage, maxUnstage = time.Second, 2*time.Minute + 2*time.Second
	// maxUnstages bounds how many of them are unstaged at once.
	maxUnstages = 8
)

// release has a volume unstaged whose last claim is going. One that its driver does not unstage is left to Run, as with
// the kubelet: the pod has ended, and another one may need its name or the volume. The next agent has its record.
func (v *Volumes) release(ctx context.Context, r *record) error {
	err := v.unstage(ctx, r.key())
	if err == nil || ctx.Err() != nil {
		return err
	}
	if !v.isLeft(r.key()) {
		return err
	}
	v.opts.Log.Warn("a volume that no pod uses is still staged, and will be unstaged again", "driver", r.Driver,
		"volume", r.Name, "error", err)
	v.leave(r.key(), r.Attach == "true")
	return nil
}

// isLeft reports whether a volume may still be staged.
func (v *Volumes) isLeft(k key) bool {
	if k.driver == localDriver {
		mounted, err := v.opts.Files.Mounted(v.diskDir(k))
		return mounted || err != nil
	}
	staged, err := v.readRecord(v.stageDir(k))
	return err == nil && staged != nil && staged.key() == k
}

// leave notes a volume that no pod claims and that may be staged.
func (v *Volumes) leave(k key, attach bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.left[k] = attach
	v.leaves.Ring()
}

// loadLeft notes the staged volumes that no pod claims: an earlier agent has left them.
func (v *Volumes) loadLeft() error {
	all := filepath.Join(v.opts.RootDir, stagedDir)
	for driver, err := range v.opts.Files.Entries(all) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !driver.IsDir() {
			continue
		}
		for e, err := range v.opts.Files.Entries(filepath.Join(all, driver.Name())) {
			if err != nil {
				return err
			}
			// One that cannot be read is left alone; the set-up of its next pod reports it.
			r, err := v.readRecord(filepath.Join(all, driver.Name(), e.Name()))
			if err == nil && r != nil && !v.claims(r.key(), "", "") {
				v.leave(r.key(), r.Attach == "true")
			}
		}
	}
	return nil
}

// runLeft has left volumes unstaged until ctx ends. Without left volumes, no timer runs.
func (v *Volumes) runLeft(ctx context.Context) {
	next, pause := deadline{clock: v.opts.Clock}, firstUnstage
	for {
		switch {
		case len(v.allLeft()) == 0:
			next.clear()
			pause = firstUnstage
		case !next.isSet():
			next.set(pause)
			pause = min(2*pause, maxUnstage)
		}
		passed, err := next.wait(ctx, v.leaves)
		if err != nil {
			return
		}
		if passed {
			v.unstageLeft(ctx)
		}
	}
}

func (v *Volumes) allLeft() []key {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.SortedFunc(maps.Keys(v.left), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.handle, b.handle))
	})
}

// unstageLeft tries once to have each left volume unstaged that no pod claims by now. A driver that hangs holds up the
// next round, for the deadline of its RPC.
func (v *Volumes) unstageLeft(ctx context.Context) {
	g := clock.NewGroup(v.opts.Clock, maxUnstages)
	for _, k := range v.allLeft() {
		g.Go(func() {
			release, err := v.locks.lock(ctx, k)
			if err != nil {
				return // it ends
			}
			defer release()
			if !v.claims(k, "", "") {
				err = v.unstage(ctx, k)
			}
			if err != nil {
				v.opts.Log.Warn("a volume that no pod uses is still staged", "driver", k.driver, "error", err)
				return
			}
			v.mu.Lock()
			delete(v.left, k)
			v.mu.Unlock()
		})
	}
	g.Wait()
	v.reportInUse()
}
