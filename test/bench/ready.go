package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	pods "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// stage is a pod's progress from ready to unready and back.
type stage uint8

const (
	unseen  stage = iota // its readiness is not known yet
	failing              // it was reported ready; probes fail until it is reported unready
	passing              // it was reported unready; probes succeed until it is reported ready
	passed               // it was reported ready again
)

// flip is one pod's progress.
type flip struct {
	stage stage
	// failed: a probe has failed since the pod was reported ready.
	failed bool
	// sent is the time of the first successful probe after that.
	sent time.Time
}

// flips turns pods unready and ready again, each by itself, and times how long the report of that takes. status and see
// run in different goroutines.
type flips struct {
	mu   sync.Mutex
	pods map[string]*flip
	took []float64 // seconds
	done chan struct{}
}

func newFlips(pods []string) *flips {
	f := &flips{pods: map[string]*flip{}, done: make(chan struct{})}
	for _, p := range pods {
		f.pods[p] = &flip{}
	}
	return f
}

// status returns the HTTP status for a probe of a pod.
func (f *flips) status(pod string, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch p := f.pods[pod]; {
	case p == nil:
	case p.stage == failing:
		p.failed = true
		return http.StatusServiceUnavailable
	case p.stage == passing && p.sent.IsZero():
		p.sent = now
	}
	return http.StatusOK
}

// see records an agent's report of a pod. Reports of older states, which may come first, change nothing.
func (f *flips) see(pod string, ready bool, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch p := f.pods[pod]; {
	case p == nil:
	case p.stage == unseen && ready:
		p.stage = failing
	case p.stage == failing && !ready && p.failed:
		p.stage = passing
	case p.stage == passing && ready && !p.sent.IsZero():
		p.stage = passed
		f.took = append(f.took, now.Sub(p.sent).Seconds())
		if len(f.took) == len(f.pods) {
			close(f.done)
		}
	}
}

// times returns the times in seconds of the pods that have passed.
func (f *flips) times() []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]float64(nil), f.took...)
}

// readyFunc gets an agent's report of a pod's readiness, by the pod's UID.
type readyFunc func(uid string, ready bool)

// watchReady follows an agent's reports until ctx ends. -ready is a socket of the kubelet's pod API, unix:///..., or a
// command that prints events as JSON lines.
func watchReady(ctx context.Context, saw readyFunc) error {
	if strings.HasPrefix(*readyFrom, "unix:") {
		return watchKubelet(ctx, *readyFrom, saw)
	}
	words := strings.Fields(*readyFrom)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the caller of the bench gives the command
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = readEvents(out, saw)
		if ended := cmd.Wait(); err == nil {
			err = ended
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("bench: -ready %q ended: %w", *readyFrom, err)
}

// readEvents reads events of pods' status, one JSON object on each line.
func readEvents(r io.Reader, saw readyFunc) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Author string // pod/<uid>
			Data   struct {
				Conditions []struct {
					Type   string
					Status bool
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("bench: %q is not an event: %w", lines.Text(), err)
		}
		for _, c := range e.Data.Conditions {
			if c.Type == "Ready" {
				saw(path.Base(e.Author), c.Status)
			}
		}
	}
	return lines.Err()
}

// watchKubelet follows WatchPods of the kubelet's API v1alpha1 (KEP-4188, on by default since 1.37).
func watchKubelet(ctx context.Context, socket string, saw readyFunc) error {
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := pods.NewPodsClient(conn).WatchPods(ctx, &pods.WatchPodsRequest{})
	for err == nil {
		var e *pods.WatchPodsEvent
		if e, err = s.Recv(); err == nil {
			err = readPod(e.GetPod(), saw)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("bench: watch the pods of %s: %w", socket, err)
}

// readPod reads the Ready condition of an encoded core/v1 Pod, if it has one.
func readPod(encoded []byte, saw readyFunc) error {
	var p corev1.Pod
	if err := p.Unmarshal(encoded); err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			saw(string(p.UID), c.Status == corev1.ConditionTrue)
		}
	}
	return nil
}
