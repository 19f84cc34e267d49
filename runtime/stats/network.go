package stats

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
)

// Interface is one network interface and what it has counted since it exists.
type Interface struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

const (
	// maxDevBytes bounds a list of interfaces: 400 of them.
	maxDevBytes = 64 << 10
	// defaultInterface is what CNI calls a pod's interface, and the kubelet the node's.
	defaultInterface = "eth0"
	// devColumns are the numbers in a line of /proc/net/dev.
	devColumns = 16
)

// readNetwork reads the interfaces in the network namespace of a pod's sandbox, by way of a process in it.
func (s *Stats) readNetwork(p *podReading, scope Scope) {
	if !scope.has(Network) || s.opts.Reader == nil || p.HostNetwork {
		return
	}
	at, ok := s.places.find(s.opts.Reader, p.Cgroup, p.Sandbox.ID)
	if p.sandbox = at; !ok && len(p.containers) > 0 {
		at = p.containers[0].place
	}
	if at.Path() == "" {
		return
	}
	if pid := s.opts.Reader.Process(at); pid > 0 {
		p.network, p.networkAt = interfaces(filepath.Join(s.opts.Proc, strconv.Itoa(pid))), s.opts.Now()
	}
}

// interfaces reads the interfaces in the network namespace of a process, without interfaces inside the node: the
// loopback device and the ends of pods' devices.
func interfaces(process string) []Interface {
	dir, err := bounded.OpenDir(filepath.Join(process, "net"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	data, err := dir.ReadInto("dev", make([]byte, maxDevBytes))
	if err != nil {
		return nil
	}
	var out []Interface
	for line := range bytes.Lines(data) {
		name, rest, ok := strings.Cut(string(line), ":")
		n := numbers(rest)
		if name = strings.TrimSpace(name); !ok || len(n) < devColumns || internal(name) {
			continue
		}
		out = append(out, Interface{
			Name: name, RxBytes: n[0], RxPackets: n[1], RxErrors: n[2], RxDropped: n[3],
			TxBytes: n[8], TxPackets: n[9], TxErrors: n[10], TxDropped: n[11],
		})
	}
	return out
}

func internal(name string) bool {
	return name == "lo" || strings.HasPrefix(name, "veth") || strings.HasPrefix(name, "docker") ||
		strings.HasPrefix(name, "nerdctl")
}

func numbers(text string) []uint64 {
	var out []uint64
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// primary returns the default interface: eth0, else the first one.
func primary(all []Interface) *Interface {
	for i := range all {
		if all[i].Name == defaultInterface {
			return &all[i]
		}
	}
	if len(all) > 0 {
		return &all[0]
	}
	return nil
}
