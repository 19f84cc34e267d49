//go:build attack

package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What clients of port 10250 do: one that only reaches the node's address, one with permissions of the API server.

// Clients that are nobody, or not who they say.
func TestClientsWithoutPermissions(t *testing.T) {
	attack{
		cluster: true,
		begin: func(g *target) {
			w := g.world
			w.tokens["good"], w.denied["nobody"] = "reader", true
			logs := "/containerLogs/" + g.bystanderPath() + "/main"
			node.Eventually(t, settle, "the agent to know that the container runs", func() error {
				code, body, err := w.do(w.as("reader"), http.MethodGet, logs, nil)
				if code != http.StatusOK {
					return fmt.Errorf("%d %.100q, %v", code, body, err) //nolint:errorlint // it may be nil
				}
				return nil
			})
			usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			name := pkix.Name{CommonName: "kube-apiserver", Organization: []string{"system:masters"}}
			expired := w.clients.Sign(t, &x509.Certificate{Subject: name, ExtKeyUsage: usage,
				NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(-time.Minute)})
			later := w.clients.Sign(t, &x509.Certificate{Subject: name, ExtKeyUsage: usage,
				NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)})
			other := authority.New(t).Client(t, "kube-apiserver", "system:masters")
			chain := *other
			chain.Certificate = append(chain.Certificate, w.clients.Cert.Raw) // as if it had signed it
			cases := map[string]struct {
				who  caller
				code int
			}{
				"no credentials": {caller{}, 401}, "another authority": {caller{cert: other}, 401},
				"another chain": {caller{cert: &chain}, 401}, "expired": {caller{cert: expired}, 401},
				"not yet": {caller{cert: later}, 401}, "a server's": {caller{cert: w.servers.Server(t)}, 401},
				"a bad token": {caller{token: "bad"}, 401}, "denied": {w.as("nobody"), 403},
				"a good token": {caller{token: "good"}, 200}, "permitted": {w.as("reader"), 200},
			}
			for _, what := range slices.Sorted(maps.Keys(cases)) {
				c := cases[what]
				for _, path := range []string{"/pods", "/metrics", "/healthz", logs} {
					if code, body, err := w.do(c.who, http.MethodGet, path, nil); code != c.code {
						t.Errorf("%s: GET %s: %d %.100q, %v; want %d", what, path, code, body, err, c.code)
					}
				}
			}
			plain, err := http.Get("http://" + w.addr + "/pods")
			must.OK(t, err)
			_ = plain.Body.Close()
			if plain.StatusCode != http.StatusBadRequest {
				t.Errorf("plain HTTP: %d", plain.StatusCode)
			}
			old := w.config(w.as("kube-apiserver"))
			old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			if c, err := tls.Dial("tcp", w.addr, old); err == nil {
				_ = c.Close()
				t.Error("TLS 1.1 was spoken")
			}
		},
		check: portWorks,
	}.run(t)
}

// Paths of a permitted client that would lead out of a directory, to another pod or into another request.
func TestPathsThatLeadElsewhere(t *testing.T) {
	attack{
		cluster: true,
		begin: func(g *target) {
			w, at := g.world, g.bystanderPath()
			who := w.as("reader")
			for _, path := range []string{
				"/logs/../../etc/passwd", "/logs/..%2f..%2fetc%2fpasswd", "/logs/%2e%2e/%2e%2e/etc/passwd",
				"//logs/../etc/passwd", "/logs/%00", "/logs/....//....//etc/passwd", "/logs/%5c..%5c..%5cetc%5cpasswd",
				"/containerLogs/" + at + "/..%2f..%2f..%2fetc%2fpasswd", "/containerLogs/default/..%2f..%2f/main",
				"/containerLogs/" + at + "/main%0a", "/containerLogs/" + at + "/%1b[2Jmain", "/containerLogs/" + at + "/main%00",
				"/containerLogs/%2e%2e/" + at + "/main", "/containerLogs/" + at + "/main/../../../pods",
			} {
				code, body, err := w.do(who, http.MethodGet, path, nil)
				if code == http.StatusOK || strings.Contains(body, "root:") || strings.Contains(body, "\x1b") {
					t.Errorf("%s: %d %.100q, %v; want a refusal", path, code, body, err)
				}
			}
			// What one permission opens, another path does not.
			w.denied["reader"] = true
			for _, path := range []string{"/healthz/../exec/" + at + "/main", "/pods%2f..%2fexec/" + at + "/main",
				"/exec/" + at + "/main?command=id&output=1", "/%65xec/" + at + "/main?command=id&output=1"} {
				code, body, err := w.do(w.as("reader"), http.MethodPost, path, nil)
				if code < 300 || strings.Contains(body, "uid=") {
					t.Errorf("%s: %d %.100q, %v; want a refusal", path, code, body, err)
				}
			}
			for _, line := range g.linesWith("\x1b") {
				t.Errorf("the log has an escape sequence: %q", line)
			}
		},
		check: portWorks,
	}.run(t)
}

// floodOfConnections is more than all connections that the port takes.
const floodOfConnections = 10_000

// Clients that connect, begin a handshake or a request, or send a body that never ends, and then do nothing.
func TestClientsOfThePortThatStall(t *testing.T) {
	var mu sync.Mutex
	var all []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
	}
	attack{
		cluster: true,
		begin: func(g *target) {
			w := g.world
			known := w.as("reader")
			begun := []string{"GET /pods HTT", "GET /pods HTTP/1.1\r\nHost: x\r\nX-Slow: ",
				"POST /exec/" + g.bystanderPath() + "/main?command=id HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx",
				"GET /containerLogs/" + g.bystanderPath() + "/main?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"}
			var connecting sync.WaitGroup
			for i := range 4 {
				connecting.Go(func() {
					for range 150 {
						if c := w.open(known, begun[i]); c != nil {
							keep(c)
						}
					}
				})
				connecting.Go(func() {
					for n := range floodOfConnections / 4 {
						c, err := net.Dial("tcp", w.addr)
						if err != nil {
							continue
						}
						if n%10 == 0 {
							_, _ = c.Write([]byte("\x16\x03\x01\x02\x00\x01\x00")) // the begin of a handshake
						}
						if n%4 == 0 {
							keep(c) // the others leave, so that this process has descriptors
						} else {
							_ = c.Close()
						}
					}
				})
			}
			connecting.Wait()
			t.Logf("%d connections", len(all))
		},
		check: portWorks,
		end: func(*target) {
			for _, c := range all {
				_ = c.Close()
			}
		},
	}.run(t)
}

// Requests with a header or a body beyond all bounds.
func TestHugeRequests(t *testing.T) {
	attack{
		cluster: true,
		begin: func(g *target) {
			w := g.world
			for _, who := range []caller{{}, w.as("reader"), {token: strings.Repeat("x", 200<<10)}} {
				for _, begin := range []string{"GET /pods HTTP/1.1\r\nHost: x\r\n",
					"POST /exec/" + g.bystanderPath() + "/main?command=id HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n",
					"POST /run/" + g.bystanderPath() + "/main?cmd=id HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"} {
					c := w.open(who, begin)
					if c == nil {
						t.Fatal("no connection")
					}
					must.OK(t, c.SetDeadline(time.Now().Add(node.Soon)))
					block := []byte("X-Huge: " + strings.Repeat("h", 64<<10-12) + "\r\n")
					for range 1600 { // 100 MiB
						if _, err := c.Write(block); err != nil {
							break // the agent has had enough
						}
					}
					_ = c.Close()
				}
			}
		},
		check: portWorks,
	}.run(t)
}

// 10,000 tokens that the API server does not know, and many good ones.
func TestFloodOfTokens(t *testing.T) {
	const tokens = 10_000
	attack{
		cluster: true,
		begin: func(g *target) {
			w := g.world
			w.mu.Lock()
			w.tokens["good"] = "reader"
			w.mu.Unlock()
			w.want(200, caller{token: "good"}, "/pods")
			var flooding sync.WaitGroup
			for i := range 8 {
				flooding.Go(func() {
					for n := range tokens / 8 {
						_, _, _ = w.do(caller{token: fmt.Sprintf("bad-%d-%d-%s", i, n, strings.Repeat("x", 8<<10))}, "GET", "/pods", nil)
					}
				})
			}
			flooding.Wait()
			if n := len(w.api.Requests("create tokenreviews.authentication.k8s.io")); n > tokens/4 {
				t.Errorf("%d reviews of %d tokens: the node's own requests had no room", n, tokens)
			}
			w.want(200, caller{token: "good"}, "/pods")
		},
		check: func(g *target) { portWorks(g); nodeIsReported(g) },
	}.run(t)
}

// An API server that answers reviews late, wrongly, or not at all.
func TestReviewsWithoutAnAnswer(t *testing.T) {
	huge := strings.Repeat("g", 32<<20)
	attack{
		cluster: true,
		begin: func(g *target) {
			w := g.world
			w.tokens["good"] = "reader"
			faults := map[string]fakeapi.Fault{
				"500": {Code: 500, Reason: "InternalError"}, "401": {Code: 401, Reason: "Unauthorized"},
				"403": {Code: 403, Reason: "Forbidden"}, "404": {Code: 404, Reason: "NotFound"}, "closed": {Refuse: true},
				"garbage": {Body: "\x00\x01garbage"}, "empty": {Body: " "}, "HTML": {Body: "<html>welcome</html>"},
				"another kind": {Body: `{"kind":"Pod","apiVersion":"v1","status":{"authenticated":true,"allowed":true}}`},
				"success":      {Body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
				"no user": {Body: `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1",` +
					`"status":{"authenticated":true}}`},
				"huge": {Body: `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,` +
					`"user":{"username":"` + huge + `"}}}`},
			}
			for _, what := range slices.Sorted(maps.Keys(faults)) {
				f := faults[what]
				w.breaks(func(r fakeapi.APIRequest) *fakeapi.Fault {
					if strings.Contains(r.Resource, "reviews") {
						return &f
					}
					return nil
				})
				if code, body, err := w.do(caller{token: "good-" + what}, "GET", "/pods", nil); code != 401 {
					t.Errorf("%s: a token got %d %.100q, %v", what, code, body, err)
				}
				code, body, err := w.do(w.as("user-"+what), "GET", "/pods", nil)
				if code != 500 && code != 403 {
					t.Errorf("%s: a certificate got %d %.100q, %v", what, code, body, err)
				}
			}
			late := func(r fakeapi.APIRequest) *fakeapi.Fault {
				if strings.Contains(r.Resource, "reviews") {
					return &fakeapi.Fault{Hold: func(ctx context.Context) { <-ctx.Done() }}
				}
				return nil
			}
			w.breaks(late)
			var waiting sync.WaitGroup
			for i := range 50 {
				waiting.Go(func() {
					if code, body, err := w.do(w.as(fmt.Sprint("late-", i)), "GET", "/pods", nil); code != 500 {
						t.Errorf("a late review: %d %.100q, %v", code, body, err)
					}
				})
			}
			waiting.Wait()
			w.breaks(nil)
		},
		check: func(g *target) { portWorks(g); nodeIsReported(g) },
	}.run(t)
}

// Sessions whose client vanishes, floods streams, or sends what is no frame of the protocol.
func TestSessionsOfThePort(t *testing.T) {
	attack{
		cluster: true,
		begin: func(g *target) {
			w, at := g.world, g.bystanderPath()
			who := w.as("kube-apiserver")
			webSocket := "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
			spdy := "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
			command := "sh&command=-c&command=" + "echo+" + mark + "%3Bcat&input=1&output=1"
			requests := []string{
				"GET /exec/" + at + "/main?command=" + command + " HTTP/1.1\r\nHost: x\r\n" + webSocket,
				"POST /exec/" + at + "/main?command=" + command + " HTTP/1.1\r\nHost: x\r\n" + spdy,
				"GET /attach/" + at + "/main?output=1 HTTP/1.1\r\nHost: x\r\n" + webSocket,
				"POST /portForward/" + at + " HTTP/1.1\r\nHost: x\r\n" +
					strings.Replace(spdy, "v4.channel.k8s.io", "portforward.k8s.io", 1),
			}
			// The begin of a stream in SPDY/3, without headers, of the odd streams up.
			var streams strings.Builder
			for id := 1; id < 4000; id += 2 {
				streams.Write([]byte{0x80, 3, 0, 1, 0, 0, 0, 10, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id),
					0, 0, 0, 0, 0, 0})
			}
			frames := []string{"", strings.Repeat("\xff", 1<<16), "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00abc",
				streams.String()}
			for i := range 64 {
				c := w.open(who, requests[i%len(requests)])
				if c == nil {
					t.Fatal("the agent takes no connection")
				}
				must.OK(t, c.SetDeadline(time.Now().Add(node.Soon)))
				// Of a command that is still being started, containerd loses the process when its client leaves.
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
					t.Errorf("request %d: %v, %v", i%len(requests), res, err)
				}
				if i%len(requests) == 0 {
					_, _ = c.Read(make([]byte, 64))
				}
				_, _ = io.WriteString(c, frames[i/len(requests)%len(frames)])
				_ = c.NetConn().Close() // without the end of TLS
			}
			flood(w, who, at)
		},
		check: func(g *target) {
			portWorks(g)
			node.Eventually(t, settle, "no process of a session to be left", func() error {
				if left := processes(); len(left) > 0 {
					return fmt.Errorf("%d are left, such as %s", len(left), left[0])
				}
				return nil
			})
		},
	}.run(t)
}

// flood sends handshakes of WebSocket that fail: for a container that does not exist, with a token as a subprotocol.
func flood(w *world, who caller, at string) {
	var flooding sync.WaitGroup
	ctx, cancel := context.WithTimeout(w.g.Context(), floodFor)
	defer cancel()
	token := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("bad"))
	for i := range 8 {
		flooding.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				as, protocols := who, "v5.channel.k8s.io"
				if n%2 == 0 {
					as, protocols = caller{}, protocols+","+token
				}
				_, _, _ = w.do(as, http.MethodGet, "/exec/"+at+"/none?command=id&output=1", http.Header{
					"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
					"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {protocols},
				})
			}
		})
	}
	flooding.Wait()
}

// The serving certificate is replaced again and again, sometimes by garbage, while clients connect.
func TestCertificateThatIsReplacedUnderLoad(t *testing.T) {
	attack{
		cluster: true,
		begin: func(g *target) {
			w := g.world
			// The files are read again each 10 s, and what is read then may be garbage: it ends with a new certificate.
			ctx, cancel := context.WithTimeout(g.Context(), settle)
			defer cancel()
			who := w.as("kube-apiserver")
			names := map[string]bool{}
			var mu sync.Mutex
			var loading sync.WaitGroup
			for range 4 {
				loading.Go(func() {
					for ctx.Err() == nil {
						c := w.open(who, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
						if c == nil {
							t.Error("a handshake failed")
							return
						}
						mu.Lock()
						names[c.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
						if len(names) > 1 {
							cancel()
						}
						mu.Unlock()
						_, _ = io.Copy(io.Discard, c)
						_ = c.Close()
					}
				})
			}
			for n := 0; ctx.Err() == nil; n++ {
				cert, _ := authority.Write(t, w.dir, w.servers.Server(t))
				if n%3 == 0 {
					writeGarbage(t, cert)
				}
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
			loading.Wait()
			if len(names) < 2 {
				t.Errorf("%d certificates were served, want the new ones too", len(names))
			}
			authority.Write(t, w.dir, w.servers.Server(t))
		},
		check: portWorks,
	}.run(t)
}

func writeGarbage(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte("-----BEGIN CERTIFICATE-----\ngarbage"), 0o600))
}
