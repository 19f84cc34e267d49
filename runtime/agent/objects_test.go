package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

const podWithConfig = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: a
    image: docker.io/library/busybox:1.36
    envFrom: [{configMapRef: {name: web}}]
`

// observed are the events of an agent, as its observers receive them.
type observed struct {
	*testing.T
	events chan *nats.Msg
	log    []string
}

// observe connects an observer, as soon as the agent lets it.
func observe(t *testing.T, root string) *observed {
	o := &observed{T: t, events: make(chan *nats.Msg, 1000)}
	for end := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		nc, err := bus.Listen(t.Context(), filepath.Join(root, "bus"))
		if err == nil {
			t.Cleanup(nc.Close)
			_, err = nc.ChanSubscribe(messages.EventFilter("node-1"), o.events)
			must.OK(t, err)
			must.OK(t, nc.Flush())
			return o
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// await returns the next event of a kind with a text.
func (o *observed) await(kind, text string) string {
	o.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case m := <-o.events:
			o.log = append(o.log, m.Subject+" "+string(m.Data))
			if strings.HasSuffix(m.Subject, "."+kind) && strings.Contains(string(m.Data), text) {
				return string(m.Data)
			}
		case <-deadline:
			o.Fatalf("no %s with %s; received\n%s", kind, text, strings.Join(o.log, "\n"))
		}
	}
}

// A pod waits for its ConfigMap, starts when the file appears, and its actor is given each change of the file.
func TestPodIsGivenItsConfigMapAndItsChanges(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.ObjectsPath = t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	defer func() {
		stop()
		must.OK(t, <-ended)
	}()
	o := observe(t, cfg.RootDir)
	must.OK(t, os.WriteFile(filepath.Join(cfg.StaticPodPath, "web.yaml"), []byte(podWithConfig), 0o600))
	o.await("objects_read", `configmap \"web\" not found`)
	var digests []string
	for _, value := range []string{"hidden-1", "hidden-2", "hidden-3"} {
		path := filepath.Join(cfg.ObjectsPath, "web.yaml")
		must.OK(t, os.WriteFile(path+".new", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {K: "+
			value+"}\n"), 0o600))
		began := time.Now()
		must.OK(t, os.Rename(path+".new", path))
		read := o.await("objects_read", "OBJECT_STATE_PRESENT")
		strict.Within(t, "the reading of a change", time.Since(began), time.Second)
		digests = append(digests, regexp.MustCompile(`[0-9a-f]{64}`).FindString(read))
		if value == "hidden-1" {
			o.await("call_finished", `container_id`)
			t.Logf("started %s after the file appeared", time.Since(began))
		}
	}
	if digests[0] == "" || digests[0] == digests[1] || digests[1] == digests[2] {
		t.Errorf("digests %q", digests)
	}
	for _, event := range o.log {
		if strings.Contains(event, "hidden-") {
			t.Errorf("contents in an event: %s", event)
		}
	}
}
