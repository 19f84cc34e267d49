package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/criproxy"
)

const (
	// proxied is replaced in an agent's command by the endpoint of the proxy that records its calls.
	proxied = "@CRI@"
	// alone counts the pods that start one after another; the median is printed.
	alone = 5
	// traceRest is the time for the machine to settle between the parts of a trace.
	traceRest = 5 * time.Second
)

// trace prints where the time goes: of one pod alone, and of a burst.
func (c *client) trace() error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a socket in a temporary directory
	socket := filepath.Join(dir, "cri")
	proxy, err := criproxy.Listen(socket, *endpoint)
	if err != nil {
		return err
	}
	defer proxy.Close()
	through, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer through.Close()
	floor := &client{rt: cri.NewRuntimeServiceClient(through)}
	bare, err := floor.startAlone()
	if err != nil {
		return err
	}
	time.Sleep(traceRest)
	floorBurst := c.traceBurst(floorName, "raw-", 0, proxy, floor.rawStarts)
	c.wipe()
	proxy.Take()

	clearManifests()
	command := flagArgs()
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], proxied, "unix://"+socket)
	}
	a := start(command)
	defer a.stop()
	time.Sleep(*warm)
	one, err := c.traceAlone(proxy, bare)
	if err != nil {
		return err
	}
	ours := c.traceBurst(*name, "pb-", a.cmd.Process.Pid, proxy, putAll)
	last := proxy.LastCreate()
	if err := c.clear(); err != nil {
		return err
	}
	a.stop()
	floor.like = &like{sandbox: last.GetSandboxConfig(), container: last.GetConfig(), dir: dir}
	likeBurst := c.traceBurst("floor, "+*name+"'s requests", "raw-", 0, proxy, floor.rawStarts)
	writeTrace(os.Stdout, one, ours, floorBurst, likeBurst)
	return nil
}

// clear removes all manifests and waits until their pods are gone.
func (c *client) clear() error {
	clearManifests()
	if !c.waitGone("pb-", time.Now().Add(*limit)) {
		return fmt.Errorf("bench: pods are left after %v", *limit)
	}
	time.Sleep(traceRest)
	return nil
}

func (c *client) rawStarts() {
	parallel(*n, func(i int) {
		if _, err := c.rawPod(i); err != nil {
			log.Print(err)
		}
	})
}

func putAll() {
	for i := range *n {
		put(fmt.Sprintf("pb-%03d", i), 0)
	}
}

// startAlone starts pods by bare calls, one after another, and returns the median of their times.
func (c *client) startAlone() (time.Duration, error) {
	var took []time.Duration
	for i := range alone {
		t0 := time.Now()
		p, err := c.rawPod(9100 + i)
		if err != nil {
			return 0, err
		}
		st, err := call(c.rt.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: p.main})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Unix(0, st.Status.StartedAt).Sub(t0))
		time.Sleep(time.Second)
	}
	slices.Sort(took)
	c.wipe()
	return took[alone/2], nil
}

// traceAlone has the agent start pods one after another, and returns the median.
func (c *client) traceAlone(proxy *criproxy.Proxy, floor time.Duration) (podStart, error) {
	var starts []podStart
	for i := range alone {
		pod := fmt.Sprintf("pb-alone-%d", i)
		proxy.Take()
		s := podStart{written: time.Now(), floor: floor}
		put(pod, 0)
		xs, ok := c.collect(pod, 1, s.written, nil)
		if !ok {
			return s, fmt.Errorf("bench: pod %s did not run within %v", pod, *limit)
		}
		s.running = s.written.Add(time.Duration(xs[0] * float64(time.Second)))
		time.Sleep(time.Second) // a start is followed by inspections and a status
		s.calls = proxy.Take()
		records, err := recordsSince(s.written)
		if err != nil {
			return s, err
		}
		s.records = records
		crop(&s)
		starts = append(starts, s)
	}
	slices.SortFunc(starts, func(a, b podStart) int { return int(a.running.Sub(a.written) - b.running.Sub(b.written)) })
	return starts[alone/2], c.clear()
}

// traceBurst runs do and returns the calls and the CPU use until its pods run; agent is the agent's process id, or 0.
func (c *client) traceBurst(name, prefix string, agent int, proxy *criproxy.Proxy, do func()) burst {
	proxy.Take()
	b := burst{name: name, begin: time.Now()}
	before := sampleNow(agent)
	ended := make(chan struct{})
	go func() { do(); close(ended) }()
	xs, _ := c.collect(prefix, *n, b.begin, nil)
	<-ended
	b.used = sampleNow(agent).since(before)
	if len(xs) > 0 {
		b.last = time.Duration(slices.Max(xs) * float64(time.Second))
	}
	b.calls = proxy.Take()
	return b
}

// recordsSince returns the records of the agent's journal from a time on.
func recordsSince(t time.Time) ([]record, error) {
	words := strings.Fields(*observe)
	b, err := exec.Command(words[0], words[1:]...).Output() //nolint:gosec // the caller of the bench gives the command
	if err != nil {
		return nil, fmt.Errorf("bench: -observe %q: %w", *observe, err)
	}
	return parseRecords(b, t)
}

// parseRecords reads events, one JSON object on each line, and groups them by record.
func parseRecords(b []byte, since time.Time) ([]record, error) {
	var out []record
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Seq   uint64
			Time  time.Time
			Event string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("bench: %q is not an event: %w", lines.Text(), err)
		}
		if e.Time.Before(since) {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].seq == e.Seq {
			out[last].events = append(out[last].events, e.Event)
			continue
		}
		out = append(out, record{e.Seq, e.Time, []string{e.Event}})
	}
	return out, lines.Err()
}
