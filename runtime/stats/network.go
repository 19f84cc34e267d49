package stats

import (
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/stats/usage"
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

// readNetwork reads the interfaces in the network namespace of a pod's sandbox, by way of a process in it: of the
// sandbox, or of a container where the sandbox has no process, as with CRI-O.
func (s *Stats) readNetwork(p *podReading, scope Scope) {
	if !scope.has(Network) || s.opts.Reader == nil || p.HostNetwork {
		return
	}
	p.sandbox, _ = s.places.find(s.opts.Reader, p.Cgroup, p.Sandbox.ID)
	pid := s.firstProcess(p.sandbox)
	for i := 0; pid == 0 && i < len(p.containers); i++ {
		pid = s.firstProcess(p.containers[i].place)
	}
	if pid > 0 {
		p.network, p.networkAt = interfaces(filepath.Join(s.opts.Proc, strconv.Itoa(pid))), s.opts.Now()
	}
}

// firstProcess returns a process of a cgroup; 0 if the cgroup has none, or is not known.
func (s *Stats) firstProcess(at usage.Place) int {
	if at.Path() == "" {
		return 0
	}
	return s.opts.Reader.Process(at)
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
