package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/journalet/journalet/test/criproxy"
)

const (
	// probeHost is the target of HTTP probes: all pods are on the node's network, and one server serves all.
	probeHost   = "127.0.0.1"
	probePeriod = time.Second
	// probeWarm is the time from the start of the last pod to the measurement of probes.
	probeWarm = 10 * time.Second
	// flipped counts the pods that become unready and ready again.
	flipped = 20
	// flipLimit bounds that: two rounds of probes, and the agent's time to report them.
	flipLimit = 30 * time.Second
)

// probing is the target of the probes of an agent's pods.
type probing struct {
	http, exec *arrivals
	port       int
	proxy      *criproxy.Proxy
	flips      *flips
	server     *http.Server
	socket     string // of the proxy
	dir        string
}

// aim begins to serve probes: HTTP by a server of this process, commands by a proxy before the runtime.
func aim() (*probing, error) {
	p := &probing{http: newArrivals(), exec: newArrivals()}
	var pods []string
	for i := range min(flipped, *n) {
		pods = append(pods, probed(i))
	}
	p.flips = newFlips(pods)
	l, err := net.Listen("tcp", net.JoinHostPort(probeHost, "0"))
	if err != nil {
		return nil, err
	}
	p.port = l.Addr().(*net.TCPAddr).Port
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(l) }() // ends with close
	if p.dir, err = os.MkdirTemp("", "bench"); err == nil {
		p.socket = filepath.Join(p.dir, "cri")
		p.proxy, err = criproxy.Listen(p.socket, *endpoint)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.proxy.ServeExec(p.exec.note)
	return p, nil
}

func (p *probing) close() {
	_ = p.server.Close()
	if p.proxy != nil {
		_ = p.proxy.Close()
	}
	_ = os.RemoveAll(p.dir) // a socket in a temporary directory
}

// ServeHTTP serves a probe. The path names its pod.
func (p *probing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pod := path.Base(r.URL.Path)
	p.http.note(pod, time.Now())
	w.WriteHeader(p.flips.status(pod, time.Now()))
}

func probed(i int) string { return fmt.Sprintf("pb-%03d", i) }

// probedManifest returns a pod with an HTTP probe and an exec probe each second. Its UID is its name, so that agents
// report it by its name.
func probedManifest(pod string, port int) []byte {
	every := func(kv map[string]any) map[string]any {
		kv["periodSeconds"], kv["failureThreshold"] = int(probePeriod/time.Second), 1
		return kv
	}
	get := map[string]any{"host": probeHost, "port": port, "path": "/" + pod}
	main := map[string]any{
		"name": "main", "image": *image, "imagePullPolicy": "IfNotPresent", "command": mainCommand,
		"readinessProbe": every(map[string]any{"httpGet": get}),
		"livenessProbe":  every(map[string]any{"exec": map[string]any{"command": []string{"true"}}}),
	}
	b, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": pod, "namespace": "default", "uid": pod},
		"spec":     map[string]any{"hostNetwork": true, "containers": []any{main}, "terminationGracePeriodSeconds": 5}})
	return b
}

// probes measures how well an agent keeps the period of its pods' probes, its CPU, and how soon it reports a result.
func (c *client) probes(args []string) {
	p, err := aim()
	if err != nil {
		die(err)
	}
	defer p.close()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], proxied, "unix://"+p.socket)
	}
	defer clearManifests() // after the agent's end: main removes the pods from the runtime
	a := start(args)
	defer a.stop()
	time.Sleep(*warm)
	for i := range *n {
		putFile(probed(i), probedManifest(probed(i), p.port))
	}
	_, ok := c.collect("pb-", *n, time.Now(), nil)
	time.Sleep(probeWarm)
	ok = ok && p.http.probes() == *n && p.exec.probes() == *n
	p.rhythm(a, ok)
	if *readyFrom != "" {
		p.ready()
	}
}

// rhythm measures probes and CPU over the window.
func (p *probing) rhythm(a *agent, ok bool) {
	usage := func() (agent, runtime, self float64) {
		if *rtpid > 0 {
			runtime = cpuOf(*rtpid)
		}
		return a.cpu(), runtime, cpuOf(os.Getpid())
	}
	millicores := func(begin, end float64) float64 { return r3((end - begin) / window.Seconds() * 1000) }
	begin := time.Now()
	a0, r0, s0 := usage()
	time.Sleep(*window)
	a1, r1, s1 := usage()
	end := time.Now()
	kv := map[string]any{
		"complete": ok, "cpu_millicores": millicores(a0, a1), "bench_millicores": millicores(s0, s1), "rss_mib": r3(a.rss()),
	}
	if *rtpid > 0 {
		kv["runtime_millicores"] = millicores(r0, r1)
	}
	for kind, at := range map[string]*arrivals{"http": p.http, "exec": p.exec} {
		rhythmOf(at.within(begin, end), *n, probePeriod, begin, end).report(kv, kind)
	}
	out("probes", kv)
}

// ready turns pods unready and ready again while all are probed, and times the second half of it.
func (p *probing) ready() {
	x, cancel := context.WithTimeout(context.Background(), flipLimit)
	defer cancel()
	go func() {
		select {
		case <-p.flips.done:
			cancel()
		case <-x.Done():
		}
	}()
	if err := watchReady(x, func(uid string, ready bool) { p.flips.see(uid, ready, time.Now()) }); err != nil {
		log.Print(err)
	}
	xs := p.flips.times()
	for i := range xs {
		xs[i] *= 1000
	}
	kv := quant(xs)
	kv["complete"] = len(xs) == min(flipped, *n)
	out("ready_ms", kv)
}
