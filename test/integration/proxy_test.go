//go:build integration

package integration

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// proxy is a socket before the runtime's that can be taken away, hang, or answer nonsense.
type proxy struct {
	t    *testing.T
	path string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	held     chan struct{} // closed while bytes pass
	garbage  bool
}

// behindProxy puts a proxy that does not listen yet between an agent and the runtime.
func (a *agent) behindProxy() *proxy {
	p := &proxy{t: a.T, path: filepath.Join(a.Dir, "cri.sock"), conns: map[net.Conn]bool{}, held: make(chan struct{})}
	close(p.held)
	a.Endpoint = "unix://" + p.path
	a.AtTheEnd(p.resume)
	a.AtTheEnd(p.close)
	return p
}

// open begins to listen.
func (p *proxy) open() {
	p.t.Helper()
	l, err := net.Listen("unix", p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
}

// close takes the socket away and cuts every connection, as the end of the runtime does.
func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // takes the socket's file away too
		p.listener = nil
	}
	p.cut()
}

func (p *proxy) cut() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// hang lets no byte pass any more; resume lets all pass that was held.
func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
	default:
		close(p.held)
	}
}

// talkNonsense cuts every connection and answers new ones with what is no HTTP/2, or ends that.
func (p *proxy) talkNonsense(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.garbage = on
	p.cut()
}

func (p *proxy) serve(c net.Conn) {
	p.mu.Lock()
	garbage := p.garbage
	p.conns[c] = true
	p.mu.Unlock()
	if garbage {
		_, _ = io.WriteString(c, "HTTP/1.1 400 I am no container runtime\r\n\r\n\x00\xff\xfe nonsense")
		_ = c.Close()
		return
	}
	up, err := net.Dial("unix", socketPath())
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns[up] = true
	p.mu.Unlock()
	go p.pass(up, c)
	p.pass(c, up)
}

// pass copies until either side ends.
func (p *proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		<-held
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
