package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/fakecsi"
)

// options are the flags.
type options struct {
	endpoint, program, image string
	runtimePID               int
	idle, limit              time.Duration
	logs, agents             string
	csi, keep                bool
}

func main() {
	if err := fakecsi.RunIfDriver(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	var o options
	var pods string
	var runs int
	flag.StringVar(&o.endpoint, "cri", "", "CRI endpoint of a private runtime: all its pods are removed")
	flag.IntVar(&o.runtimePID, "runtime-pid", 0, "process id of the runtime")
	flag.StringVar(&o.program, "program", "", "our agent")
	flag.StringVar(&o.image, "image", "docker.io/library/busybox:1.36", "image of the pods, already on the runtime")
	flag.StringVar(&pods, "n", "50", "one or more numbers of pods, separated by spaces")
	flag.IntVar(&runs, "runs", 1, "rounds of each agent for each number, in turn")
	flag.DurationVar(&o.idle, "idle", time.Minute, "length of the idle window")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "limit of one stage of a round")
	flag.StringVar(&o.logs, "logs", "", "directory that gets the agents' logs; empty: they are removed")
	flag.StringVar(&o.agents, "agents", oursName+" "+kubeletName, "the agents to measure, separated by a space")
	flag.BoolVar(&o.csi, "csi", false, "measure pods with volumes of a CSI driver instead")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory of the cluster and its nodes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, strings.Fields(pods), runs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, numbers []string, runs int) error {
	if o.endpoint == "" || o.program == "" {
		return errors.New("give a runtime with -cri and our agent with -program")
	}
	rt, err := dial(o.endpoint)
	if err != nil {
		return err
	}
	kubelet, err := cluster.Provide(ctx, cluster.Kubelet)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "jl-cluster-bench-")
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Audit: true})
	if err != nil {
		return errors.Join(err, cluster.Remove(dir))
	}
	b := &bench{options: o, Cluster: c, runtime: rt, kubelet: filepath.Join(kubelet, string(cluster.Kubelet))}
	for _, number := range numbers {
		n, bad := strconv.Atoi(number)
		if err = bad; bad != nil {
			break
		}
		if err = b.rounds(ctx, n, runs); err != nil {
			break
		}
	}
	err = errors.Join(err, c.Stop(), b.wipe(context.WithoutCancel(ctx)), b.keepLogs())
	if o.keep {
		slog.Info("the cluster is kept", "directory", dir)
		return err
	}
	return errors.Join(err, cluster.Remove(dir))
}

// bench is one control plane with its runtime.
type bench struct {
	options
	*cluster.Cluster
	runtime runtime
	kubelet string
	round   int
}

// rounds measures both agents in turn.
func (b *bench) rounds(ctx context.Context, n, runs int) error {
	for range runs {
		for _, name := range strings.Fields(b.agents) {
			b.round++
			slog.Info("a round begins", "agent", name, "pods", n, "round", b.round)
			if err := b.measure(ctx, name, n); err != nil {
				return fmt.Errorf("%s with %d pods: %w", name, n, err)
			}
		}
	}
	return nil
}

// keepLogs copies the agents' logs.
func (b *bench) keepLogs() error {
	if b.logs == "" {
		return nil
	}
	return os.CopyFS(b.logs, os.DirFS(filepath.Join(b.Dir, "logs")))
}

// figures are the values of a result.
type figures map[string]any

// out prints one result.
func (r *round) out(scenario string, f figures) error {
	f["agent"], f["scenario"], f["n"] = r.name, scenario, r.n
	line, err := json.Marshal(f)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	return err
}
