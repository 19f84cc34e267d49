//go:build attack

package attack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a client of the kubelet's paths on the agent's socket does.

const (
	// stallers is nearly all connections that the socket takes; others of the agent's user find a place.
	stallers = 1000
	// sessions is how many clients are killed in the middle of one, of each kind.
	sessions = 20
	// headerWait bounds the time until the agent drops a client that does not send its header.
	headerWait = 20 * time.Second
)

func (g *target) socket() string { return filepath.Join(g.Root, local.SocketFile) }

// raw connects to the socket and writes bytes; nil if the agent refuses.
func (g *target) raw(text string) net.Conn {
	c, err := net.Dial("unix", g.socket())
	if err != nil {
		return nil
	}
	if _, err := io.WriteString(c, text); err != nil {
		_ = c.Close()
		return nil
	}
	return c
}

// request sends a request to the socket and returns the status and the beginning of the body.
func (g *target) request(method, path string) (int, string) {
	g.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, local.BaseURL+path, nil)
	must.OK(g.T, err)
	req.Close = true // an idle connection is a descriptor of the agent
	res, err := local.Dial(g.socket()).HTTP.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxPage))
	return res.StatusCode, string(b)
}

// socketWorks checks that the socket answers an operator.
func socketWorks(g *target) {
	g.Helper()
	if code, body := g.request(http.MethodGet, "/pods"); code != http.StatusOK || !strings.Contains(body, "bystander-1") {
		g.Errorf("/pods: %d, %.200s", code, body)
	}
}

// bystanderPath returns the namespace and the name of the first bystander, for a path.
func (g *target) bystanderPath() string { return "default/bystander-1-" + g.Node }

// Clients that connect, begin a request, or request a stream that they never read, and then do nothing.
func TestClientsThatStall(t *testing.T) {
	var all []net.Conn
	attack{
		begin: func(g *target) {
			follow := fmt.Sprintf("GET /containerLogs/%s/main?follow=true HTTP/1.1\r\nHost: x\r\n\r\n", g.bystanderPath())
			begun := []string{"", "GET /pods HTT", "GET /pods HTTP/1.1\r\nHost: x\r\nX-Slow: ", follow,
				"POST /exec/" + g.bystanderPath() + "/main?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\n" +
					"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"}
			for i := range stallers {
				// Sessions are few: each costs a process of the runtime.
				text := begun[i%3]
				if i%50 == 0 {
					text = begun[3+i/50%2]
				}
				if c := g.raw(text); c != nil {
					all = append(all, c)
				}
			}
			if len(all) < stallers/2 {
				g.Fatalf("only %d clients could connect", len(all))
			}
		},
		check: func(g *target) {
			commandLineWorks(g)
			node.Eventually(g.T, headerWait, "the socket to serve others", func() error {
				if code, body := g.request(http.MethodGet, "/healthz"); code != http.StatusOK {
					return fmt.Errorf("%d, %.200s", code, body)
				}
				return nil
			})
		},
		end: func(*target) {
			for _, c := range all {
				_ = c.Close()
			}
		},
	}.run(t)
}

// Requests of every path, as fast as many clients can send them.
func TestFloodOfRequests(t *testing.T) {
	paths := []string{"/pods", "/runningpods/", "/stats/summary", "/metrics", "/metrics/cadvisor", "/metrics/resource",
		"/configz", "/statusz", "/healthz", "/containerLogs/default/none/main", "/logs/", "/nowhere",
		"/exec/default/none/main?command=id"}
	attack{
		begin: func(g *target) {
			ctx, cancel := context.WithTimeout(g.Context(), floodFor)
			defer cancel()
			var flooding sync.WaitGroup
			for i := range 32 {
				flooding.Go(func() {
					c := local.Dial(g.socket()).HTTP
					defer c.CloseIdleConnections()
					for n := i; ctx.Err() == nil; n++ {
						req, err := http.NewRequestWithContext(ctx, http.MethodGet, local.BaseURL+paths[n%len(paths)], nil)
						if err != nil {
							return
						}
						if res, err := c.Do(req); err == nil {
							_, _ = io.Copy(io.Discard, res.Body) // the flood ends it
							_ = res.Body.Close()
						}
					}
				})
			}
			flooding.Wait()
		},
		check: func(g *target) { commandLineWorks(g); socketWorks(g) },
	}.run(t)
}

// mark is in the command of every process that a session starts, so that the processes that stay can be counted.
const mark = "54321"

// processes returns the processes in containers whose command line has the mark.
func processes() []string {
	var left []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, f := range all {
		line, _ := os.ReadFile(f) // it may have ended
		if strings.Contains(string(line), mark) && !strings.Contains(string(line), "journalet") {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}

// streams returns how many connections the runtime's streaming server has.
func (g *target) streams() int {
	b, _ := os.ReadFile("/proc/net/tcp")
	b6, _ := os.ReadFile("/proc/net/tcp6")
	n := 0
	pid := fmt.Sprint(g.Process.Cmd.Process.Pid)
	fds, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, fd := range fds {
		to, _ := os.Readlink(fd)
		inode, is := strings.CutPrefix(to, "socket:[")
		if is && strings.Contains(string(b)+string(b6), " "+strings.TrimSuffix(inode, "]")+" ") {
			n++
		}
	}
	return n
}

// Clients that are killed in the middle of an exec, of logs -f and of a port-forward.
func TestClientsThatAreKilledMidStream(t *testing.T) {
	var before int
	attack{
		begin: func(g *target) {
			before = g.streams()
			pod := "bystander-1-" + g.Node
			commands := [][]string{
				{"exec", "-i", pod, "--", "sh", "-c", "while :; do echo " + mark + "; sleep 0.1; done"},
				{"exec", "-i", pod, "--", "sh", "-c", "cat; : " + mark},
				{"logs", "-f", pod},
				{"port-forward", pod, ":8080"},
			}
			var clients []*exec.Cmd
			var printed []func()
			for range sessions {
				for i, args := range commands {
					cmd := exec.CommandContext(g.Context(), g.Program, append(args[:1:1],
						append([]string{"--root-dir", g.Root}, args[1:]...)...)...)
					in, err := cmd.StdinPipe()
					must.OK(t, err)
					defer in.Close()
					out, err := cmd.StdoutPipe()
					must.OK(t, err)
					var failure bytes.Buffer
					cmd.Stderr = &failure
					must.OK(t, cmd.Start())
					clients = append(clients, cmd)
					if i > 1 {
						continue
					}
					printed = append(printed, func() {
						_, err := io.WriteString(in, "typed\n")
						if err == nil {
							_, err = io.ReadFull(out, make([]byte, 1))
						}
						if err != nil {
							t.Fatalf("%v; the client ended: %v: %s", err, cmd.Wait(), failure.String())
						}
					})
				}
			}
			// Of a command that is still being started, containerd loses the process when its client leaves.
			for _, until := range printed {
				until()
			}
			node.Eventually(t, settle, "the sessions to be under way", func() error {
				if n := len(processes()); n < 2*sessions {
					return fmt.Errorf("%d processes of %d", n, 2*sessions)
				}
				return nil
			})
			for _, c := range clients {
				must.OK(t, c.Process.Signal(unix.SIGKILL))
			}
			for _, c := range clients {
				_ = c.Wait() // killed
			}
		},
		check: func(g *target) {
			socketWorks(g)
			node.Eventually(t, settle, "no process of a session to be left", func() error {
				if left := processes(); len(left) > 0 {
					return fmt.Errorf("%d are left, such as %s", len(left), left[0])
				}
				if n := g.streams(); n > before {
					return fmt.Errorf("%d connections, %d before", n, before)
				}
				return nil
			})
		},
	}.run(t)
}

// Names that would lead to another pod, out of a directory or into another request.
func TestNamesThatLeadElsewhere(t *testing.T) {
	attack{
		begin: func(g *target) {
			foreign := foreignContainer(t)
			pod := "bystander-1-" + g.Node
			for _, path := range []string{
				"/exec/default/" + pod + "/..%2f" + foreign, "/exec/default/" + foreign + "/main",
				"/exec/default/..%2f..%2fdefault%2f" + pod + "/main", "/exec/default/" + pod + "%0d%0aX:y/main",
				"/exec/default/" + pod + "%00/main", "/exec/default%2f" + pod + "/main/x", "/exec/%2e%2e/" + pod + "/main",
				"/exec/elsewhere/foreign/main", "/exec/kube-system/" + pod + "/main", "/exec/default/" + pod + "/" + foreign,
				"/exec/default/" + pod + "/main%20", "/exec/default/" + pod + "/%2e%2e",
			} {
				code, body := g.request(http.MethodPost, path+"?command=id&output=1")
				if code < http.StatusBadRequest || strings.Contains(body, "uid=") {
					t.Errorf("%s: %d, %.200s; want a refusal", path, code, body)
				}
			}
			for _, path := range []string{
				"/containerLogs/default/" + pod + "/..%2f..%2f..%2fetc%2fpasswd", "/containerLogs/default/..%2f..%2f/main",
				"/containerLogs/elsewhere/foreign/main", "/logs/..%2f..%2fetc%2fpasswd", "/logs/../../etc/passwd",
				"/logs/%2e%2e/%2e%2e/etc/passwd",
			} {
				if code, body := g.request(http.MethodGet, path); code == http.StatusOK || strings.Contains(body, "root:") {
					t.Errorf("%s: %d, %.200s; want a refusal", path, code, body)
				}
			}
		},
		check: socketWorks,
	}.run(t)
}

// foreignContainer runs a container as another agent does, and returns its id.
func foreignContainer(t *testing.T) string {
	t.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "foreign", Namespace: "elsewhere", Uid: "foreign-" + t.Name()},
		LogDirectory: t.TempDir(),
		Labels: map[string]string{
			node.PodNameLabel: "foreign", node.PodNamespaceLabel: "elsewhere", node.PodUIDLabel: "foreign-" + t.Name(),
		},
	}
	s, err := setup.Runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	must.OK(t, err)
	t.Cleanup(func() { setup.Runtime.RemoveSandbox(s.GetPodSandboxId()) })
	c, err := setup.Runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: s.GetPodSandboxId(), SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: node.Image},
			Command: []string{"sleep", "100000"},
		},
	})
	must.OK(t, err)
	_, err = setup.Runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.GetContainerId()})
	must.OK(t, err)
	return c.GetContainerId()
}

// Upgraded connections that carry what is no frame of their protocol.
func TestGarbageInUpgradedStreams(t *testing.T) {
	attack{
		begin: func(g *target) {
			at := g.bystanderPath()
			upgrades := []string{
				"POST /exec/" + at + "/main?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n" +
					"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n",
				"GET /exec/" + at + "/main?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n" +
					"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
					"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
				"GET /portForward/" + at + "?port=80 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
					"Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n\r\n",
			}
			frames := []string{
				strings.Repeat("\xff", 1<<16), strings.Repeat("\x00", 1<<16),
				"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00abc",   // a frame of 2^63 bytes
				"\x80\x03\x00\x01\x00\xff\xff\xff" + strings.Repeat("z", 1<<16), // a new stream of 16 MiB
				"\x82\x85\x00\x00\x00\x00\xffhell",                              // a channel that does not exist
			}
			for i := range 60 {
				if c := g.raw(upgrades[i%len(upgrades)]); c != nil {
					_ = c.SetDeadline(time.Now().Add(node.Soon))
					b := make([]byte, 4096)
					_, _ = c.Read(b) // the answer to the upgrade
					_, _ = io.WriteString(c, frames[i%len(frames)])
					_ = c.Close()
				}
			}
		},
		check: socketWorks,
	}.run(t)
}
