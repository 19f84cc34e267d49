//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	// diskBytes is the agent's whole disk in the test.
	diskBytes = 64 << 20
	chunk     = 1 << 20
	// victims counts the pods that crash, and the pods that are removed, while the disk is full. Their records exceed
	// the free part of a block's last page.
	victims = 4
	// cannotStore is the agent's log message when the journal's disk is full.
	cannotStore = "the journal cannot store"
	// cannotKeep is its log message when a manifest cannot be stored.
	cannotKeep = "cannot store or emit manifests"
)

// fullSeconds is how long the disk stays full.
var fullSeconds = length{6, 60}

func TestDiskFullAndFreed(t *testing.T) {
	r := choices(t)
	a := newAgent(t)
	must.OK(t, os.Mkdir(a.Root, 0o700))
	must.OK(t, unix.Mount("tmpfs", a.Root, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskBytes)))
	c, before := newChurn(a, r, 0)
	for i := range victims {
		c.put(fmt.Sprintf("victim-%d", i), idles)
		c.put(fmt.Sprintf("leaving-%d", i), idles)
	}
	node.Eventually(t, settle, "all pods", func() error { return a.holds(c.wanted) })

	filler, err := os.Create(filepath.Join(a.Root, "filler"))
	must.OK(t, err)
	defer filler.Close()
	logged := len(a.logged())
	fillUp(t, filler)
	end := time.Now().Add(time.Duration(fullSeconds.now()) * time.Second)
	for i := range victims {
		c.crash(fmt.Sprintf("victim-%d", i))
		c.remove(fmt.Sprintf("leaving-%d", i))
	}
	node.Eventually(t, settle, "the agent to report the full disk, to its end", func() error {
		// Fill the space that removed pods free, and that the agent had reserved.
		fillUp(t, filler)
		if name := fmt.Sprintf("victim-%d", r.IntN(victims)); a.crash(name) {
			w := c.wanted[name]
			w.crashed = true
			c.wanted[name] = w
		}
		if text := a.logged()[logged:]; time.Now().Before(end) || !strings.Contains(text, cannotStore) {
			return fmt.Errorf("its log since then:\n%s", text)
		}
		return nil
	})
	if !a.Process.Running() {
		t.Fatalf("the agent ended on a full disk: %s", a.Process.Cmd.ProcessState)
	}
	if now := a.stable(); !maps.Equal(now, before) {
		t.Errorf("the full disk changed pods:\n%v\nand before\n%v", now, before)
	}
	// A manifest that the agent cannot store now is read again later. It is longer than the free part of a file's last
	// page.
	c.putPadded("late", idles, 2*os.Getpagesize())
	node.Eventually(t, settle, "the agent to report that it cannot store a manifest", func() error {
		if !strings.Contains(a.logged()[logged:], cannotKeep) {
			return errors.New("not in its log")
		}
		return nil
	})
	must.OK(t, filler.Truncate(0))
	c.put("later", idles)
	a.recovered(c.wanted, before)
	if !a.Process.Running() {
		t.Errorf("the agent ended: %s", a.Process.Cmd.ProcessState)
	}
}

// fillUp writes until the disk is full.
func fillUp(t *testing.T, f *os.File) {
	t.Helper()
	for b := make([]byte, chunk); ; {
		if _, err := f.Write(b); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
