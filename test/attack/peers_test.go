//go:build attack

package attack

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a client of the agent's sockets and ports does.

func (g *target) bus() string { return filepath.Join(g.Root, "bus") }

// quiet drops a client's errors, which an attacker expects.
func quiet() nats.Option { return nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) }

const (
	observers     = 60
	subscriptions = 200
)

func TestObserversThatSubscribeToAll(t *testing.T) {
	var all []*nats.Conn
	attack{
		begin: func(g *target) {
			for range observers {
				nc, err := bus.Listen(g.Context(), g.bus(), quiet())
				if err != nil {
					continue // refused: beyond the agent's limit
				}
				all = append(all, nc)
				for range subscriptions {
					if _, err := nc.Subscribe("event.>", func(*nats.Msg) {}); err != nil {
						break
					}
				}
			}
			if len(all) == 0 {
				g.Fatal("no observer could connect")
			}
		},
		check: commandLineWorks,
		end: func(*target) {
			for _, nc := range all {
				nc.Close()
			}
		},
	}.run(t)
}

// Observers that request events of the past as fast as they can, and want the replies where others expect events.
func TestObserversThatReadThePast(t *testing.T) {
	var all []*nats.Conn
	done := make(chan struct{})
	var flooding sync.WaitGroup
	attack{
		begin: func(g *target) {
			subject := query.Subject(g.Node, query.EventsRead)
			for i := range observers {
				nc, err := bus.Listen(g.Context(), g.bus(), quiet())
				if err != nil {
					continue // refused: beyond the agent's limit
				}
				all = append(all, nc)
				inbox := nats.NewInbox()
				_, err = nc.Subscribe(inbox, func(*nats.Msg) {})
				must.OK(t, err)
				if i%2 == 1 {
					inbox = fmt.Sprintf("event.%s.pod.forged.%d", messages.Token(g.Node), i)
				}
				flooding.Go(func() {
					for nc.IsConnected() {
						select {
						case <-done:
							return
						default:
							_ = nc.PublishRequest(subject, inbox, nil)
						}
					}
				})
			}
			if len(all) == 0 {
				g.Fatal("no observer could connect")
			}
		},
		check: commandLineWorks,
		end: func(*target) {
			close(done)
			for _, nc := range all {
				nc.Close()
			}
			flooding.Wait()
		},
	}.run(t)
}

// floodFor is how long a client floods the agent with requests.
const floodFor = 3 * time.Second

func TestRequestsWithLongReplySubjects(t *testing.T) {
	var nc *nats.Conn
	attack{
		begin: func(g *target) {
			var err error
			nc, err = bus.Dial(g.Context(), g.bus(), quiet())
			must.OK(t, err)
			reply := "_INBOX." + strings.Repeat("r", 3900) + "."
			n := 0
			for end := time.Now().Add(floodFor); time.Now().Before(end) && nc.IsConnected(); n++ {
				_ = nc.PublishRequest(query.Subject(g.Node, query.PodsList), reply+fmt.Sprint(n), nil)
			}
			_ = nc.FlushTimeout(node.Soon)
			g.Logf("%d requests", n)
		},
		check: commandLineWorks,
		end:   func(*target) { nc.Close() },
	}.run(t)
}

// strangers is more than all connections that the agent takes.
const strangers = 300

func TestStrangersWithoutAKey(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(node.Port(t)))
	done := make(chan struct{})
	attack{
		flags: []string{"--bus-listen", address},
		begin: func(g *target) {
			for range strangers {
				go stranger(address, done)
			}
		},
		check: commandLineWorks,
		end:   func(*target) { close(done) },
	}.run(t)
}

// stranger connects again and again, and says nothing.
func stranger(address string, done <-chan struct{}) {
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for b := make([]byte, 4096); err == nil; {
					_, err = c.Read(b)
				}
			}()
			select {
			case <-ended:
			case <-done:
			}
			_ = c.Close()
			<-ended
		}
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestDescriptorsThatRunOut(t *testing.T) {
	attack{
		begin: func(g *target) {
			pid := g.Process.Cmd.Process.Pid
			var was unix.Rlimit
			must.OK(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was))
			few := unix.Rlimit{Cur: uint64(len(g.holdings().descriptors)), Max: was.Max}
			must.OK(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil))
			var all []net.Conn
			for range 20 {
				if c, err := net.Dial("unix", filepath.Join(g.bus(), "bus.sock")); err == nil {
					all = append(all, c)
				}
			}
			_, _, _ = g.CLI("pods") // fails or waits
			must.OK(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil))
			for _, c := range all {
				_ = c.Close()
			}
		},
		check: commandLineWorks,
	}.run(t)
}

// commandLineWorks checks that an operator can list the pods during an attack.
func commandLineWorks(g *target) {
	g.Helper()
	began := time.Now()
	out, errs, code := g.CLI("pods")
	if code != 0 || !strings.Contains(out, "bystander-1") {
		g.Errorf("`journalet pods` ended with %d after %s: %s%s", code, time.Since(began).Round(time.Millisecond), out, errs)
	}
}
