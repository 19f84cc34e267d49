//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/test/node"
)

// What is true after a reboot, as the kubelet has it: every pod that was to run runs again, in a new sandbox, each of its
// containers started once; that start counts as a restart, so a container's count is that of its last run before the
// reboot and one more; a pod that had ended for good stays ended and nothing of it runs. The count of the last run is
// taken from what the runtime has on its disk, not from the journal: the journal may have lost its end.
//
// lab.sh reboot leaves the kernel and so the boot id as they are. That hides nothing: the id is recorded at each start, and
// no decision looks at it.

func TestAfterARebootEveryPodRunsOnceMore(t *testing.T) {
	a := newAgent(t)
	c := oldPods(a, choices(t))
	for range (length{1, 3}).now() { // what one reboot leaves must not disturb the next
		before := a.runs()
		a.Kill()
		a.reboot(c)
		back := time.Now()
		a.Start()
		a.ranOnceMore(c.wanted, before, back)
	}
	a.Verified()
}

// powerCut is what one leaves of the bus's folder.
type powerCut struct {
	name string
	// lose makes the folder what the power cut left of it, given what was safe on the disk.
	lose func(bus, safe string) error
	told bool // that records are lost
	kept bool // what can be read no longer, before the store cuts it off
	// verify is what `journal verify` says afterwards. The journal goes on after what is left, and is whole again; where
	// nothing is left it goes on after what there was, and what is missing stays missing.
	verify string
}

// powerCuts begin with those of the short form: the likely one, and the one that nobody can tell.
var powerCuts = []powerCut{
	{
		"the last records, one in half",
		func(bus, safe string) error { return cutBlocks(bus, safe, 20) }, true, true, wholeJournal,
	},
	// A folder that is wholly as it was cannot be told from one to which nothing more was written. What the runtime shows
	// is all there is to go by, and must be enough.
	{
		"all that was written, the head too",
		func(bus, safe string) error { return errors.Join(os.RemoveAll(bus), os.CopyFS(bus, os.DirFS(safe))) }, false, false, wholeJournal,
	},
	{
		"the last records",
		func(bus, safe string) error { return cutBlocks(bus, safe, 0) }, true, false, wholeJournal,
	},
	{"the last records, and zeros where they were", zeroBlocks, true, true, wholeJournal},
	{
		"the only block",
		func(bus, safe string) error { return cutBlocks(bus, safe, -1<<62) }, true, false, "tells it, and the journal goes on behind them",
	},
}

const wholeJournal = "complete and unchanged"

func TestAfterAPowerCutThatTookTheJournalsEndEveryPodRunsOnceMore(t *testing.T) {
	for _, cut := range powerCuts[:length{2, len(powerCuts)}.now()] {
		t.Run(cut.name, func(t *testing.T) {
			a := newAgent(t)
			a.Flags = append(a.Flags, "--journal-sync", "interval:1m")
			c := oldPods(a, choices(t))
			bus, safe := filepath.Join(a.Root, "bus"), filepath.Join(a.Dir, "safe")
			if err := copyFiles(bus, safe); err != nil {
				t.Fatal(err)
			}
			c.newPods()
			before := a.runs()
			a.Kill()
			a.reboot(c)
			if err := cut.lose(bus, safe); err != nil {
				t.Fatal(err)
			}
			logged, back := len(a.logged()), time.Now()
			a.Start()
			a.ranOnceMore(c.wanted, before, back)
			a.toldOfTheLoss(cut.told, cut.kept, a.logged()[logged:])
			if out, errs, _ := a.CLI("journal", "verify"); !strings.Contains(out, cut.verify) {
				t.Errorf("`journalet journal verify` says %s%s, want %q", out, errs, cut.verify)
			}
		})
	}
}

// oldPods starts the agent with pods that have a past, and returns once they are as they stay.
func oldPods(a *agent, r *rand.Rand) *churn {
	a.T.Helper()
	c, _ := newChurn(a, r, 0)
	c.put("ended-well", succeeds)
	c.put("ended-badly", fails)
	c.put("crashing", crashes)
	for _, name := range []string{"restarted", "changed", "leaving"} {
		c.put(name, idles)
	}
	c.settle()
	for range 2 {
		c.crash("restarted")
		c.settle()
	}
	return c
}

// newPods changes what there is.
func (c *churn) newPods() {
	c.a.T.Helper()
	c.crash("restarted")
	c.remove("leaving")
	c.put("changed", idles)
	c.put("late", idles)
	c.put("ended-late", succeeds)
	c.settle()
}

func (c *churn) settle() {
	c.a.T.Helper()
	node.Eventually(c.a.T, settle, "all pods", func() error { return c.a.holds(c.wanted) })
}

// reboot ends all that runs on the node. The agent has ended.
func (a *agent) reboot(c *churn) {
	a.T.Helper()
	if _, err := lab("reboot"); err != nil {
		a.T.Fatal(err)
	}
	for name, w := range c.wanted {
		w.crashed = w.sandboxes() > 0 // what had ended has nothing to lose
		c.wanted[name] = w
	}
}

// runs is the number of the last start of each pod's container, from 0, by the pod's UID, as the runtime tells.
func (a *agent) runs() map[string]int32 {
	a.T.Helper()
	_, containers, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	out := map[string]int32{}
	for _, c := range containers {
		uid := c.GetLabels()[node.PodUIDLabel]
		out[uid] = max(out[uid], int32(c.GetMetadata().GetAttempt()))
	}
	return out
}

// ranOnceMore waits until all is as the manifests want, and tells what ran too often, or is counted wrongly.
func (a *agent) ranOnceMore(wanted map[string]want, before map[string]int32, back time.Time) {
	a.T.Helper()
	node.Eventually(a.T, settle, "every pod to be back", func() error { return a.holds(wanted) })
	a.T.Logf("all %d pods were as wanted after %s", len(wanted), time.Since(back).Round(time.Millisecond))
	pods, err := a.Pods()
	if err != nil {
		a.T.Fatal(err)
	}
	_, containers, err := a.OnRuntime()
	if err != nil {
		a.T.Fatal(err)
	}
	for _, p := range pods {
		uid, kind := string(p.UID), wanted[a.ShortName(p.Name)].kind
		was, known := before[uid]
		is, want := p.Status.ContainerStatuses[0].RestartCount, was
		if kind == idles {
			want++
		}
		if !known || is != want && kind != crashes || is < want {
			a.T.Errorf("%s reports %d restarts, want %d; before it had %d (%t)", p.Name, is, want, was, known)
		}
		started := 0
		for _, c := range containers {
			s, err := setup.Runtime.Container(c.GetId())
			if err == nil && c.GetLabels()[node.PodUIDLabel] == uid && s.GetStartedAt() > back.UnixNano() {
				started++
			}
		}
		if kind == idles && started != 1 || (kind == succeeds || kind == fails) && started != 0 {
			a.T.Errorf("of %s %d containers were started since", p.Name, started)
		}
	}
}

// toldOfTheLoss wants the log and the journal to say that records are lost or not, and what was torn to be set aside.
func (a *agent) toldOfTheLoss(told, torn bool, log string) {
	a.T.Helper()
	if told != strings.Contains(log, "the journal is damaged") {
		a.T.Errorf("told of the loss: %t, want %t; the log says:\n%s", !told, told, log)
	}
	ctx, cancel := context.WithTimeout(context.Background(), node.Soon)
	defer cancel()
	found := false
	for from, last := uint64(1), uint64(1); from <= last; {
		page, err := a.Client.Read(ctx, query.ReadRequest{From: from})
		if err != nil {
			a.T.Fatal(err)
		}
		for _, f := range page.Events {
			found = found || f.Event == "journal_damaged"
		}
		from, last = page.Next, page.Last
	}
	if found != told {
		a.T.Errorf("the journal tells of the loss: %t, want %t", found, told)
	}
	kept, err := os.ReadDir(filepath.Join(a.Root, "bus", "damaged"))
	if torn != (len(kept) > 0) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.T.Errorf("of the journal's end %d copies are kept (%v), want one: %t", len(kept), err, torn)
	}
}

// copyFiles copies what lies below a folder, without sockets.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
}

// journalFiles is where the journal's stream stands below the bus's folder.
const journalFiles = "jetstream/*/streams/JOURNAL/msgs"

// eachBlock calls f with each block of the journal and what of it was safe, and leaves the index as it was then: the
// server writes it now and then.
func eachBlock(bus, safe string, f func(path string, all, safe []byte) error) error {
	blocks, err := filepath.Glob(filepath.Join(bus, journalFiles, "*.blk"))
	if err != nil || len(blocks) == 0 {
		return fmt.Errorf("no blocks in %s: %w", bus, err)
	}
	for _, path := range blocks {
		rel, err := filepath.Rel(bus, path)
		if err != nil {
			return err
		}
		old, err := os.ReadFile(filepath.Join(safe, rel))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		all, err := os.ReadFile(path)
		if err == nil && len(all) <= len(old) {
			err = fmt.Errorf("%s has %d bytes, and had %d: nothing can be lost", path, len(all), len(old))
		}
		if err == nil {
			err = f(path, all, old)
		}
		if err != nil {
			return err
		}
		index := filepath.Join(filepath.Dir(rel), "index.db")
		switch b, err := os.ReadFile(filepath.Join(safe, index)); {
		case err == nil:
			err = os.WriteFile(filepath.Join(bus, index), b, 0o600)
			if err != nil {
				return err
			}
		case errors.Is(err, fs.ErrNotExist):
			_ = os.Remove(filepath.Join(bus, index)) // there may be none
		default:
			return err
		}
	}
	return nil
}

// cutBlocks cuts off what was not safe, but for so many bytes more.
func cutBlocks(bus, safe string, more int) error {
	return eachBlock(bus, safe, func(path string, _, old []byte) error {
		return os.Truncate(path, int64(max(len(old)+more, 0)))
	})
}

// zeroBlocks leaves the files as long as they were, which is what some file systems do: the length is theirs, the data is
// not.
func zeroBlocks(bus, safe string) error {
	return eachBlock(bus, safe, func(path string, all, old []byte) error {
		clear(all[len(old):])
		return os.WriteFile(path, all, 0o600)
	})
}
