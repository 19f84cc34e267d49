// Command bench measures a node agent that reads static pod manifests from a folder and drives a
// CRI runtime. It knows nothing of the agent but its command line, so that journalet, a kubelet and
// a bare loop of CRI calls (the floor) do the same work on the same runtime.
//
//	bench -name floor     -cri unix:///x.sock -n 50 -raw 4
//	bench -name journalet -cri unix:///x.sock -manifests DIR -n 50 -- journalet run ...
//	bench -table results.jsonl
//
// It prints one JSON object a scenario, in seconds, millicores and MiB, and wipes every pod of that
// runtime before and after: give it a private one. With -table it prints results side by side.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	name      = flag.String("name", "agent", "label of the results")
	endpoint  = flag.String("cri", "unix:///run/containerd/containerd.sock", "CRI endpoint of a private runtime: all its pods are removed")
	manifests = flag.String("manifests", "", "static pod folder that the agent watches")
	n         = flag.Int("n", 50, "pods")
	image     = flag.String("image", "docker.io/library/busybox:1.36", "image, already on the runtime")
	raw       = flag.Int("raw", 0, "no agent: make the CRI calls directly, with this many workers")
	idle      = flag.Duration("idle", 30*time.Second, "length of the idle window")
	warm      = flag.Duration("warm", 8*time.Second, "time that the agent gets to come up")
	logfile   = flag.String("log", os.DevNull, "file for the agent's output")
	rtpid     = flag.Int("runtime-pid", 0, "process id of the runtime, whose idle CPU is told beside the agent's")
	limit     = flag.Duration("limit", 300*time.Second, "limit of one scenario")
	skip      = flag.String("skip", "", "scenarios to leave out, separated by commas: init")
	table     = flag.String("table", "", "print the results in this file side by side, and measure nothing")
)

type client struct {
	rt cri.RuntimeServiceClient
}

func main() {
	flag.Parse()
	if *table != "" {
		printTable(*table)
		return
	}
	conn, err := grpc.NewClient(*endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		log.Fatal(err)
	}
	c := &client{cri.NewRuntimeServiceClient(conn)}
	c.wipe()
	if *raw > 0 {
		c.rawBurst()
		c.wipe()
		return
	}
	if flag.NArg() == 0 || *manifests == "" {
		log.Fatal("bench: give the agent's command after --, and its manifest folder with -manifests")
	}
	c.measure()
	c.wipe()
}

// measure runs all scenarios on one agent, one after the other.
func (c *client) measure() {
	clearManifests()
	a := start(flag.Args())
	defer a.stop()
	time.Sleep(*warm)
	c.burst(a)
	c.reaction(a)
	c.idle(a)
	c.restart(a)
	c.teardown(a)
	if !strings.Contains(","+*skip+",", ",init,") {
		c.initChain(a)
	}
	clearManifests()
	c.waitGone("pb-", time.Now().Add(60*time.Second))
}

func clearManifests() {
	for _, f := range glob() {
		if err := os.Remove(f); err != nil {
			log.Fatal(err)
		}
	}
}

func out(scenario string, kv map[string]any) {
	kv["agent"], kv["scenario"], kv["n"] = *name, scenario, *n
	b, err := json.Marshal(kv)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
}
