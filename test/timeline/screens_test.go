package timeline

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/scenario"
)

var screens = flag.String("timeline.screens", "", "write the pictures of the documents to this directory")

const (
	documents = "../../docs/img"
	// maxPicture bounds a picture of the documents, in bytes.
	maxPicture = 200_000
)

// played returns the journal of what operators meet.
func played(t *testing.T, name string) *history.Memory {
	t.Helper()
	found, err := filepath.Glob("../*/testdata/" + name + ".txt")
	must.OK(t, err)
	if len(found) != 1 {
		t.Fatalf("%d scenarios have the name %s", len(found), name)
	}
	s := scenario.New()
	datadriven.RunTest(t, found[0], func(_ *testing.T, d *datadriven.TestData) string { return s.Run(d) })
	m, err := s.Journal()
	must.OK(t, err)
	return m
}

// TestPicturesOfTheDocuments takes the pictures, and holds them to their bounds: make screens writes them.
func TestPicturesOfTheDocuments(t *testing.T) {
	crashLoop, pod := played(t, "crash_loop"), timeline.Options{Pods: []string{"web"}}
	for _, c := range []struct {
		name, scheme, prepare string
		journal               *history.Memory
		options               timeline.Options
	}{
		{"timeline-pod-light", "light", selectLast("back_off_started"), crashLoop, pod},
		{"timeline-pod-dark", "dark", selectLast("back_off_started"), crashLoop, pod},
		{"timeline-node-light", "light", "true", recorded(t), timeline.Options{}},
		{"timeline-node-dark", "dark", "true", recorded(t), timeline.Options{}},
	} {
		p := open(t, c.journal, c.options)
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}},
		})
		p.do(chromedp.EmulateViewport(1240, 640))
		js[bool](p, c.prepare)
		p.settled()
		got, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		must.OK(t, err)
		hold(t, c.name, got)
		path := filepath.Join(documents, c.name+".png")
		if *screens != "" {
			must.OK(t, os.MkdirAll(*screens, 0o755))
			must.OK(t, os.WriteFile(filepath.Join(*screens, c.name+".png"), got, 0o644))
			continue
		}
		kept, err := os.ReadFile(path)
		must.OK(t, err)
		hold(t, path, kept)
		p.quiet()
	}
}

func hold(t *testing.T, name string, picture []byte) {
	t.Helper()
	_, err := png.Decode(bytes.NewReader(picture))
	must.OK(t, err)
	if len(picture) > maxPicture {
		t.Errorf("%s has %d bytes, at most %d", name, len(picture), maxPicture)
	}
}

// selectLast selects the last event with a name.
func selectLast(event string) string {
	return fmt.Sprintf(`(journalet.select(journalet.events.findLastIndex(e => e.event === '%s'), true), true)`, event)
}
