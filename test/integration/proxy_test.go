//go:build integration

package integration

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/journalet/journalet/test/criproxy"
)

// proxy is a socket before the runtime's. It can disappear, hang, or send nonsense.
type proxy struct {
	t       *testing.T
	path    string
	between *criproxy.Proxy // nil: there is no socket

	mu   sync.Mutex
	free chan struct{} // closed while calls pass
}

// behindProxy puts a proxy that does not listen yet between an agent and the runtime.
func (a *agent) behindProxy() *proxy {
	p := &proxy{t: a.T, path: filepath.Join(a.Dir, "cri.sock"), free: make(chan struct{})}
	close(p.free)
	a.Endpoint = "unix://" + p.path
	a.AtTheEnd(p.resume)
	a.AtTheEnd(p.close)
	return p
}

// open begins to listen.
func (p *proxy) open() {
	p.t.Helper()
	between, err := criproxy.Listen(p.path, setup.Runtime.Endpoint)
	if err != nil {
		p.t.Fatal(err)
	}
	p.between = between
	between.Hold(func(string, []byte) <-chan struct{} {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.free
	})
}

// close removes the socket and cuts every connection, as the end of the runtime does.
func (p *proxy) close() {
	if p.between != nil {
		_ = p.between.Close() // removes the socket's file too
		p.between = nil
	}
}

// hang holds every call from now on; resume passes the held calls on.
func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.free:
	default:
		close(p.free)
	}
}

// talkNonsense cuts every connection and sends text that is not HTTP/2 to new ones, until end is called.
func (p *proxy) talkNonsense() (end func()) {
	p.t.Helper()
	p.close()
	l, err := net.Listen("unix", p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = io.WriteString(c, "HTTP/1.1 400 I am no container runtime\r\n\r\n\x00\xff\xfe nonsense")
			_ = c.Close()
		}
	}()
	return func() { _ = l.Close() }
}
