//go:build chaos

package chaos

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/journalet/journalet/test/criproxy"
)

// proxy stands between an agent and the runtime. It holds every call that contains one of the hung names.
type proxy struct {
	mu    sync.Mutex
	names []string
	free  chan struct{} // closed by release
	held  map[string]int
}

// behindProxy puts a proxy between an agent that has not started yet and the runtime.
func (a *agent) behindProxy() *proxy {
	a.T.Helper()
	path := filepath.Join(a.Dir, "cri.sock")
	between, err := criproxy.Listen(path, setup.Runtime.Endpoint)
	if err != nil {
		a.T.Fatal(err)
	}
	p := &proxy{held: map[string]int{}}
	between.Hold(p.holds)
	// At the very end, because the removal of the agent's pods passes through here.
	a.AtTheEnd(func() {
		p.release()
		_ = between.Close()
	})
	a.Endpoint = "unix://" + path
	return p
}

// hang holds every call that contains one of these names, from now on.
func (p *proxy) hang(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names, p.free = names, make(chan struct{})
}

// release passes on the calls whose callers still wait, and returns how many calls were held.
func (p *proxy) release() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free != nil {
		close(p.free)
	}
	p.names, p.free = nil, nil
	n := 0
	for _, k := range p.held {
		n += k
	}
	return n
}

// holdsBoth returns an error until a RunPodSandbox and another call have been held.
func (p *proxy) holdsBoth() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	sandbox, other := 0, 0
	for method, n := range p.held {
		if strings.HasSuffix(method, "/RunPodSandbox") {
			sandbox += n
		} else {
			other += n
		}
	}
	if sandbox == 0 || other == 0 {
		return fmt.Errorf("held so far: %v", p.held)
	}
	return nil
}

// holds returns the channel that a call must wait for, or nil.
func (p *proxy) holds(method string, request []byte) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.names {
		if bytes.Contains(request, []byte(n)) {
			p.held[method]++
			return p.free
		}
	}
	return nil
}
