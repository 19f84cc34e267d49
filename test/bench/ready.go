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

// stage is how far a pod is in being made unready and ready again.
type stage uint8

const (
	unseen  stage = iota // its readiness is not known yet
	failing              // it was seen ready; probes fail until it is seen unready
	passing              // it was seen unready; probes succeed, and it is waited for
	passed               // it was seen ready again
)

// flip is one pod's way through the stages.
type flip struct {
	stage stage
	// failed: a probe was answered with a failure since the pod was seen ready.
	failed bool
	// sent is when the first probe was answered well after that.
	sent time.Time
}

// flips make pods unready and ready again, each at its own pace, and time how long it takes until that shows. Answers to
// probes and what is seen come from different goroutines.
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

// answer is the HTTP status for a probe of a pod that is answered now.
func (f *flips) answer(pod string, now time.Time) int {
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

// see takes note of what an agent shows of a pod. An agent may first show older states; they change nothing.
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

// times are the seconds of those that have passed.
func (f *flips) times() []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]float64(nil), f.took...)
}

// seer hears of a pod, by its UID, that an agent shows it as ready or not.
type seer func(uid string, ready bool)

// watchReady follows what an agent shows until ctx ends: -ready is a socket of the kubelet's pod API, unix:///..., or a command
// that prints events as JSON lines.
func watchReady(ctx context.Context, saw seer) error {
	if strings.HasPrefix(*readyFrom, "unix:") {
		return watchKubelet(ctx, *readyFrom, saw)
	}
	words := strings.Fields(*readyFrom)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // who starts the bench gives the command
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

// readEvents reads events of pods' status, one JSON object a line.
func readEvents(r io.Reader, saw seer) error {
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
			return fmt.Errorf("bench: %q is no event: %w", lines.Text(), err)
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
func watchKubelet(ctx context.Context, socket string, saw seer) error {
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

// readPod reads an encoded core/v1 Pod; of one without the condition it reports nothing.
func readPod(encoded []byte, saw seer) error {
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
