// Command bench measures a node agent that reads static pod manifests from a directory and drives a CRI runtime. It
// knows only the agent's command line, so that journalet, a kubelet and a bare loop of CRI calls (the floor) do the
// same work on the same runtime.
//
//	bench -name floor     -cri unix:///x.sock -n 50 -raw 4
//	bench -name journalet -cri unix:///x.sock -manifests DIR -n 50 -- journalet run ...
//	bench -only probes -cri unix:///x.sock -manifests DIR -n 200 -- journalet run --container-runtime-endpoint @CRI@ ...
//	bench -table results.jsonl
//	bench -guard results
//	bench -trace -cri unix:///x.sock -manifests DIR -n 50 -- journalet run ...
//
// It prints one JSON object for each scenario, in seconds, millicores, MiB and bytes. It removes every pod of the
// runtime before and after, so give it a private one. With -table it prints results side by side, with the goals of
// goals.go; with -guard benchmarks of two programs, and it fails where one got worse; with -trace it prints where the
// time of a pod's start and of a burst goes.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/journalet/journalet/test/bench/slowdisk"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	name     = flag.String("name", "agent", "label of the results")
	endpoint = flag.String("cri", "unix:///run/containerd/containerd.sock",
		"CRI endpoint of a private runtime: all its pods are removed")
	manifests = flag.String("manifests", "", "static pod directory that the agent watches")
	n         = flag.Int("n", 50, "pods")
	image     = flag.String("image", "docker.io/library/busybox:1.36", "image, already on the runtime")
	raw       = flag.Int("raw", 0, "no agent: send the CRI calls directly, with this many workers")
	idle      = flag.Duration("idle", 30*time.Second, "length of the idle window")
	warm      = flag.Duration("warm", 8*time.Second, "time for the agent's start")
	logfile   = flag.String("log", os.DevNull, "file for the agent's output")
	rtpid     = flag.Int("runtime-pid", 0, "process id of the runtime, to measure its CPU too")
	limit     = flag.Duration("limit", 300*time.Second, "limit of one scenario")
	intoPods  = flag.String("into", "", "the agent's command line, its words separated by spaces, for logs, exec and top")
	only      = flag.String("only", "burst,reaction,idle,into,restart,teardown,journal,init,volumes",
		"scenarios to measure, in a fixed order; or \"probes\" alone, with a proxy before the runtime")
	window    = flag.Duration("window", 60*time.Second, "length of the window in which probes are measured")
	readyFrom = flag.String("ready", "", "with probes: the source of pods' readiness, as a command, its words "+
		"separated by spaces, that prints events as JSON lines, or the socket of a kubelet's pod API (unix://...)")
	size = flag.String("size", "", "command, its words separated by spaces, that prints the agent's journal size as JSON")
	slow = flag.String("slow", "", "directory to mount as a disk with -delay added to each sync; its data is in the "+
		"directory of that name and .disk")
	delay     = flag.Duration("delay", 10*time.Millisecond, "delay of each sync, with -slow")
	table     = flag.String("table", "", "print the results in this file side by side, and measure nothing")
	syncTable = flag.String("sync-table", "", "the same for results of bursts named \"<sync> <disk>\"")
	guardIt   = flag.String("guard", "", "compare benchmarks of \"this\" and \"base\" in a file: fail if this is worse")
	traceIt   = flag.Bool("trace", false, "print where the time goes instead of measuring")
	observe   = flag.String("observe", "", "with -trace: command, its words separated by spaces, that prints the "+
		"agent's journal as JSON lines")
)

// probesAlone is a scenario of its own, because the proxy before the runtime would change the figures of the others.
const probesAlone = "probes"

type client struct {
	rt   cri.RuntimeServiceClient
	disk *slowdisk.Disk // nil unless -slow
	like *like          // nil: the floor requests the least that a pod needs
}

func main() {
	flag.Parse()
	switch {
	case *table != "":
		show(*table, writeTable)
		return
	case *syncTable != "":
		show(*syncTable, writeSyncTable)
		return
	case *guardIt != "":
		if err := guard(*guardIt, os.Stdout); err != nil {
			die(err)
		}
		return
	}
	conn, err := grpc.NewClient(*endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		die(err)
	}
	c := &client{rt: cri.NewRuntimeServiceClient(conn)}
	c.wipe()
	defer c.wipe()
	switch {
	case *raw > 0 && !*traceIt:
		c.measureFloor()
	case flag.NArg() == 0 || *manifests == "":
		die("bench: give the agent's command after --, and its manifest directory with -manifests")
	case *only == probesAlone:
		clearManifests()
		c.probes(flagArgs())
	case wanted(probesAlone):
		die("bench: probes are measured alone: name no other scenario in -only")
	case *traceIt:
		if err := c.trace(); err != nil {
			c.wipe()
			die(err)
		}
	default:
		c.measure()
	}
}

func show(path string, write func(io.Writer, []*block)) {
	blocks, err := readFile(path)
	if err != nil {
		die(err)
	}
	write(os.Stdout, blocks)
}

// measure runs the scenarios on one agent, one after another.
func (c *client) measure() {
	clearManifests()
	if *slow != "" {
		var err error
		below := *slow + ".disk"
		if err = errors.Join(os.MkdirAll(*slow, 0o750), os.MkdirAll(below, 0o750)); err == nil {
			c.disk, err = slowdisk.Mount(below, *slow, *delay)
		}
		if err != nil {
			die(err)
		}
		defer func() {
			if err := c.disk.Close(); err != nil {
				log.Print(err)
			}
		}()
	}
	a := start(flag.Args())
	defer a.stop()
	time.Sleep(*warm)
	for _, s := range []struct {
		name string
		run  func(*agent)
	}{
		{"burst", c.burst}, {"reaction", c.reaction}, {"idle", c.idle}, {"into", c.into}, {"restart", c.restart},
		{"teardown", c.teardown}, {"journal", c.journal}, {"init", c.initChain}, {"volumes", c.volumes},
	} {
		if wanted(s.name) {
			s.run(a)
		}
	}
	clearManifests()
	c.waitGone("pb-", time.Now().Add(60*time.Second))
}

// wanted reports whether -only names a scenario.
func wanted(scenario string) bool { return slices.Contains(strings.Split(*only, ","), scenario) }

func clearManifests() {
	for _, f := range glob() {
		if err := os.Remove(f); err != nil {
			die(err)
		}
	}
}

func out(scenario string, kv map[string]any) {
	kv["agent"], kv["scenario"], kv["n"] = *name, scenario, *n
	b, err := json.Marshal(kv)
	if err != nil {
		die(err)
	}
	fmt.Fprintln(os.Stdout, string(b))
}

// die logs an error and ends the bench.
func die(v ...any) {
	log.Fatal(v...) //nolint:forbidigo // this is a command
}
