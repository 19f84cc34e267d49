//go:build integration

package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// demands gives the pods of the admission test their requests and host ports.
func demands(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		switch name {
		case "greedy":
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
		case "first", "port-taken":
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 28085}}
		}
	}
}

func TestObserverReceivesEveryRecordOverARestart(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("past", idle))
	a.pod("past", "ready", ready)
	cmd := exec.CommandContext(t.Context(), setup.Program, "observe", "--from", "2", "-o", "json", "--root-dir", a.Root)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	seen := make(chan messages.Flat)
	go func() {
		defer close(seen)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var f messages.Flat
			if json.Unmarshal(lines.Bytes(), &f) != nil {
				f.Event = "not JSON: " + lines.Text()
			}
			select {
			case seen <- f:
			case <-t.Context().Done():
				return
			}
		}
	}()
	deadline := time.After(settle)
	last, restarted := uint64(1), false
	for {
		var f messages.Flat
		var open bool
		select {
		case f, open = <-seen:
		case <-deadline:
			t.Fatalf("observed up to record %d only", last)
		}
		if !open || f.Seq != last && f.Seq != last+1 {
			t.Fatalf("after record %d came %+v (open=%t)", last, f, open)
		}
		last = f.Seq
		switch {
		case f.Event == "pod_status_changed" && strings.Contains(string(f.Data), "RUNNING") && !restarted:
			// The observer has caught up. It must continue with new records over a restart.
			restarted = true
			a.crash()
			a.put(newPod("present", idle))
		case f.Event == "pod_status_changed" && strings.Contains(string(f.Data), "RUNNING"):
			return
		}
	}
}

func TestNetworkObserverReceivesAndCannotPublish(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", node.Port(t))
	a := started(t, nil, "--bus-listen", address)
	key := filepath.Join(a.Root, "bus", "credentials", bus.ObserverKeyFile)
	refusals := make(chan error, 16)
	onError := nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err })
	nc, err := bus.DialURL(t.Context(), "nats://"+address, key, onError)
	must.OK(t, err)
	defer nc.Close()
	events, err := nc.SubscribeSync("event.>")
	if err == nil {
		err = nc.Flush()
	}
	must.OK(t, err)
	a.put(newPod("seen", idle))
	m, err := events.NextMsg(settle)
	if err != nil || !strings.Contains(string(m.Data), "seen") && !strings.Contains(m.Subject, a.Node) {
		t.Errorf("the observer receives %v, %v", m, err)
	}
	for _, subject := range []string{"node.x", "event.x", "journal.x", "$JS.API.STREAM.DELETE.JOURNAL"} {
		must.OK(t, nc.Publish(subject, []byte("x")))
		select {
		case err := <-refusals:
			if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
				t.Errorf("publishing to %s: %v", subject, err)
			}
		case <-time.After(node.Soon):
			t.Errorf("publishing to %s was not refused", subject)
		}
	}
	if c, err := nats.Connect("nats://" + address); err == nil {
		c.Close()
		t.Error("a connection without the key was accepted")
	}
	queryKey := filepath.Join(filepath.Dir(key), bus.QueryKeyFile)
	out, errs, code := a.CLI("pods", "--server", "nats://"+address, "--nkey", queryKey)
	if code != 0 || !strings.Contains(out, "seen-"+a.Node) {
		t.Errorf("`journalet pods --server` ended with %d:\n%s%s", code, out, errs)
	}
	a.pod("seen", "ready", ready)
	a.Verified()
}

func TestObserverSurvivesCrashesOfTheAgent(t *testing.T) {
	t.Parallel()
	const crashes = 12
	a := newAgent(t)
	a.put(newPod("web", idle))
	a.Spawn()
	a.watch()
	starts := named("agent_started")
	for n := 1; n <= crashes; n++ {
		// At once: the agent dies while it starts, and the observer's connection while it reads.
		a.journal.wait(t, 0, node.Soon, fmt.Sprintf("start %d of the agent", n), func(f messages.Flat) bool {
			return starts(f) && a.journal.count(starts) >= n
		})
		a.Kill()
		a.Spawn()
	}
	a.pod("web", "ready", ready)
	runsOnce(t, a, 1)
	events, _ := a.journal.seen()
	for i, f := range events[1:] {
		if before := events[i].Seq; f.Seq != before && f.Seq != before+1 {
			t.Errorf("after record %d the observer received record %d", before, f.Seq)
		}
	}
	a.Verified()
}
