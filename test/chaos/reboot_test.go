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
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What must hold after a reboot, as for the kubelet:
//   - Every running pod runs again, in a new sandbox. Each of its containers is started once, and that counts as a
//     restart. So its restart count is one more than the attempt number of its last run. That number comes from the
//     runtime's disk, not from the journal, which may have lost its end.
//   - A pod that had succeeded or failed stays so, and nothing of it runs.
//
// lab.sh reboot keeps the kernel and so the boot id. That hides nothing: no decision depends on the boot id.

func TestRebootStartsEveryPodOnce(t *testing.T) {
	a := newAgent(t)
	c := oldPods(a, choices(t))
	for range (length{1, 3}).now() { // remains of one reboot must not disturb the next
		before := a.runs()
		a.Kill()
		a.reboot(c)
		back := time.Now()
		a.Start()
		a.ranOnceMore(c.wanted, before, back)
	}
	a.Verified()
}

// powerCut describes what a power cut leaves of the bus's directory.
type powerCut struct {
	name string
	// lose removes from the directory what the power cut lost. safe holds a copy of what was safe on the disk.
	lose     func(bus, safe string) error
	reported bool // the agent reports lost records
	kept     bool // the agent keeps a copy of unreadable bytes before the store truncates them
	// verify is the output of `journal verify`. The journal continues after the records that are left, and is complete
	// again. Without any record left, it continues after the lost ones, and those stay missing.
	verify string
}

// powerCuts begin with the two cuts of the short form: the likely cut, and the cut that cannot be detected.
var powerCuts = []powerCut{
	{
		"the last records, one in half",
		func(bus, safe string) error { return cutBlocks(bus, safe, 20) }, true, true, wholeJournal,
	},
	// A directory in an older state looks like one without later writes. The state of the runtime must be enough.
	{
		"all that was written, the head too",
		func(bus, safe string) error { return errors.Join(os.RemoveAll(bus), os.CopyFS(bus, os.DirFS(safe))) },
		false, false, wholeJournal,
	},
	{
		"the last records",
		func(bus, safe string) error { return cutBlocks(bus, safe, 0) }, true, false, wholeJournal,
	},
	{"the last records, and zeros where they were", zeroBlocks, true, true, wholeJournal},
	{
		"the only block",
		func(bus, safe string) error { return cutBlocks(bus, safe, -1<<62) }, true, false, "were lost, as recorded in record",
	},
}

const wholeJournal = "complete and unchanged"

func TestPowerCutThatTruncatesTheJournalStartsEveryPodOnce(t *testing.T) {
	for _, cut := range powerCuts[:length{2, len(powerCuts)}.now()] {
		t.Run(cut.name, func(t *testing.T) {
			a := newAgent(t)
			a.Flags = append(a.Flags, "--journal-sync", "interval:1m")
			c := oldPods(a, choices(t))
			bus, safe := filepath.Join(a.Root, "bus"), filepath.Join(a.Dir, "safe")
			must.OK(t, copyFiles(bus, safe))
			c.newPods()
			before := a.runs()
			a.Kill()
			a.reboot(c)
			must.OK(t, cut.lose(bus, safe))
			logged, back := len(a.logged()), time.Now()
			a.Start()
			a.ranOnceMore(c.wanted, before, back)
			a.reportsTheLoss(cut.reported, cut.kept, a.logged()[logged:])
			if out, errs, _ := a.CLI("journal", "verify"); !strings.Contains(out, cut.verify) {
				t.Errorf("`journalet journal verify` prints %s%s, want %q", out, errs, cut.verify)
			}
		})
	}
}

// oldPods starts the agent with pods that have succeeded, failed or been restarted, and waits for their last state.
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

// newPods changes, adds and removes pods.
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

// reboot ends every process of a pod on the node. The agent must have ended before.
func (a *agent) reboot(c *churn) {
	a.T.Helper()
	if _, err := node.Lab("reboot"); err != nil {
		a.T.Fatal(err)
	}
	for name, w := range c.wanted {
		w.crashed = w.sandboxes() > 0 // a terminated pod has nothing to lose
		c.wanted[name] = w
	}
}

// runs returns the attempt number, from 0, of each pod's newest container on the runtime, by the pod's UID.
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

// ranOnceMore waits until all pods match their manifests, and checks their starts since then and their restart counts.
func (a *agent) ranOnceMore(wanted map[string]want, before map[string]int32, back time.Time) {
	a.T.Helper()
	node.Eventually(a.T, settle, "every pod to be back", func() error { return a.holds(wanted) })
	a.T.Logf("all %d pods matched their manifests after %s", len(wanted), time.Since(back).Round(time.Millisecond))
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
			a.T.Errorf("%d containers of %s were started since", started, p.Name)
		}
	}
}

// reportsTheLoss checks whether the log and the journal report lost records, and whether a torn end was kept.
func (a *agent) reportsTheLoss(reported, torn bool, log string) {
	a.T.Helper()
	if reported != strings.Contains(log, "the journal is damaged") {
		a.T.Errorf("the log reports the loss: %t, want %t:\n%s", !reported, reported, log)
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
	if found != reported {
		a.T.Errorf("the journal records the loss: %t, want %t", found, reported)
	}
	kept, err := os.ReadDir(filepath.Join(a.Root, "bus", "damaged"))
	if torn != (len(kept) > 0) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.T.Errorf("%d copies of the journal's end are kept (%v), want one: %t", len(kept), err, torn)
	}
}

// copyFiles copies the regular files and directories below a directory.
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

// journalFiles is the directory of the journal's stream, below the bus's directory.
const journalFiles = "jetstream/*/streams/JOURNAL/msgs"

// eachBlock calls f with each block of the journal and with its safe copy. It restores the index, which the server
// writes now and then.
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

// cutBlocks truncates each block to its safe length and some bytes more.
func cutBlocks(bus, safe string, more int) error {
	return eachBlock(bus, safe, func(path string, _, old []byte) error {
		return os.Truncate(path, int64(max(len(old)+more, 0)))
	})
}

// zeroBlocks keeps the length of the files and zeroes the bytes that were not safe, as some file systems do.
func zeroBlocks(bus, safe string) error {
	return eachBlock(bus, safe, func(path string, all, old []byte) error {
		clear(all[len(old):])
		return os.WriteFile(path, all, 0o600)
	})
}
