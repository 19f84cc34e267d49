//go:build attack

package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a tenant does at port 10250: through the API server, which is one client for all tenants, or from a pod.

// upgrade is the rest of a request for a session.
const upgrade = " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"

// A tenant follows the log of its own pod, and has commands in it, as often as it can.
func TestSessionsOfOneTenant(t *testing.T) {
	const many = 300
	var mu sync.Mutex
	var all []net.Conn
	attack{
		// The stream of a command to the runtime is SPDY, and its compression of headers takes 620 KiB. The bound is
		// the unit's GOMEMLIMIT: above it, garbage is collected at once.
		tenants: true, memory: 384 << 20,
		begin: func(g *target) {
			g.create(g.ns.mine, node.Pod("mine", node.Image, "echo hello; "+node.Idle))
			g.awaitPod(g.ns.mine, "mine", "to run", node.Ready)
			at, who := "/"+g.ns.mine+"/mine-"+g.Node+"/main", g.server()
			codes := map[int]int{}
			session := func(request string) {
				c := g.world.open(who, request)
				if c == nil {
					return // more connections than the port takes
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					codes[res.StatusCode]++
				}
				if err != nil || res.StatusCode >= http.StatusBadRequest {
					_ = c.Close() // as the API server does
					return
				}
				all = append(all, c)
			}
			each(many, func(int) { session("GET /containerLogs" + at + "?follow=true HTTP/1.1\r\nHost: x\r\n\r\n") })
			each(many, func(int) { session("GET /exec" + at + "?command=cat&input=1&output=1" + upgrade) })
			g.Logf("answers: %v", codes)
			if codes[http.StatusOK] == 0 || codes[http.StatusSwitchingProtocols] == 0 || codes[http.StatusTooManyRequests] == 0 {
				t.Errorf("sessions were answered with %v, want some of each kind, and a bound", codes)
			}
			for range 20 { // at once: nobody has left
				if err := g.serves(who); err != nil {
					t.Errorf("another tenant: %v", err)
				}
			}
		},
		end: func(*target) {
			for _, c := range all {
				_ = c.Close()
			}
		},
	}.run(t)
}

// A pod sends tokens that nobody knows. Clients at other addresses are served, also once the answers about their tokens
// have expired, and also clients that were not known before.
func TestTokensOfOneAddress(t *testing.T) {
	attack{
		tenants: true, flags: []string{"--authentication-token-webhook-cache-ttl", "1s"},
		begin: func(g *target) {
			known := caller{token: g.token("known")}
			fresh := caller{token: g.token("fresh")}
			if err := g.serves(known); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(g.Context())
			var flooding sync.WaitGroup
			defer flooding.Wait()
			defer cancel()
			for i := range 4 {
				flooding.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						g.world.flood(ctx, fmt.Sprintf("unknown-%d-%d", i, n))
					}
				})
			}
			for range 60 { // some seconds: each answer expires several times
				if err := g.serves(known); err != nil {
					t.Errorf("a token that was known before: %v", err)
				}
			}
			if err := g.serves(fresh); err != nil {
				t.Errorf("a token that was not known before: %v", err)
			}
		},
	}.run(t)
}

// flood sends a token from another address of this machine.
func (w *world) flood(ctx context.Context, token string) {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	tr := &http.Transport{TLSClientConfig: w.config(caller{}), DisableKeepAlives: true, DialContext: d.DialContext}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+w.addr+"/pods", http.NoBody)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if res, err := tr.RoundTrip(req); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxPage))
		_ = res.Body.Close()
	}
}

// token returns a token of an account that may use the port.
func (g *target) token(name string) string {
	g.Helper()
	account := pathOf(g.ns.others, "serviceaccounts")
	g.must(http.MethodPost, account, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil)
	if *realAPI != "" {
		g.must(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", map[string]any{
			"metadata": map[string]any{"name": g.ns.others + "-" + name},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": g.ns.others}},
		}, nil)
	}
	var request struct{ Status struct{ Token string } }
	g.must(http.MethodPost, account+"/"+name+"/token", map[string]any{
		"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": map[string]any{},
	}, &request)
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	g.world.tokens[request.Status.Token] = name
	return request.Status.Token
}

// Clients that request the pages which grow with the node, and hardly read them.
func TestSlowReaders(t *testing.T) {
	var mu sync.Mutex
	var all []net.Conn
	attack{
		tenants: true,
		begin: func(g *target) {
			each(60, func(i int) {
				g.create(g.ns.mine, node.Pod(fmt.Sprintf("pod-%d", i), node.Image, node.Idle, nowhere, func(p *corev1.Pod) {
					p.Annotations = map[string]string{"a": strings.Repeat("x", 200<<10)}
				}))
			})
			g.awaitPod(g.ns.mine, "pod-1", "to be rejected", rejected)
			who := g.server()
			each(300, func(i int) {
				path := []string{"/pods", "/stats/summary", "/runningpods/"}[i%3]
				if c := g.world.open(who, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); c != nil {
					_, _ = c.Read(make([]byte, 1))
					mu.Lock()
					all = append(all, c)
					mu.Unlock()
				}
			})
			g.world.want(http.StatusOK, who, "/stats/summary")
		},
		end: func(*target) {
			for _, c := range all {
				_ = c.Close()
			}
		},
	}.run(t)
}

// Invalid names of containers: not UTF-8, or as long as a request may be.
func TestNamesOfContainersThatAreNone(t *testing.T) {
	attack{
		tenants: true,
		begin: func(g *target) {
			before, who := g.stored(), g.server()
			pod := strings.TrimSuffix(g.bystanderAt(), "/main")
			each(400, func(i int) {
				name := []string{"%FF", "%00", "%1b[2J", strings.Repeat("n", 200<<10), strings.Repeat("%E2%80%AE", 1000)}[i%5]
				for _, request := range []string{
					"GET /exec" + pod + "/" + name + "?command=id&output=1" + upgrade,
					"GET /attach" + pod + "/" + name + "?output=1" + upgrade,
					"POST /run" + pod + "/" + name + "?cmd=id HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
					"GET /containerLogs" + pod + "/" + name + " HTTP/1.1\r\nHost: x\r\n\r\n",
				} {
					c := g.world.open(who, request)
					if c == nil {
						continue
					}
					if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && res.StatusCode < 400 {
						t.Errorf("%.40q: %s", request, res.Status)
					}
					_ = c.Close()
				}
			})
			if n := g.stored() - before; n > 1<<20 {
				t.Errorf("the journal has %d bytes more", n)
			}
			must.OK(t, g.healthyBut(""))
			for _, line := range g.linesWith("\x1b") {
				t.Errorf("the log has an escape sequence: %.200q", line)
			}
		},
	}.run(t)
}
