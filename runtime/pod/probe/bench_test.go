package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The probes of a full node: each pod has one HTTP probe and one exec probe, each every second.
const (
	benchPods    = 200
	benchSeconds = 10
	// execTakes is the duration of a command: about that of runc exec on a small machine.
	execTakes = 30 * time.Millisecond
)

// commands is a runtime whose commands succeed after execTakes.
type commands struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (commands) ExecSync(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	<-time.After(execTakes)
	return &runtimeapi.ExecSyncResponse{}, nil
}

// BenchmarkFourHundredProbesASecond reports how late probes begin, and their cost: the CPU time of the whole process
// with the targets.
func BenchmarkFourHundredProbesASecond(b *testing.B) {
	for b.Loop() {
		late, cpu := probeNode(b)
		slices.Sort(late)
		at := func(p float64) float64 { return float64(late[int(p*float64(len(late)-1))]) / float64(time.Millisecond) }
		b.ReportMetric(float64(len(late))/benchSeconds, "probes/s")
		b.ReportMetric(at(.5), "late-p50-ms")
		b.ReportMetric(at(.99), "late-p99-ms")
		b.ReportMetric(at(1), "late-max-ms")
		b.ReportMetric(cpu.Seconds()/benchSeconds*100, "cpu-%")
	}
}

// probeNode probes a node for benchSeconds.
func probeNode(b *testing.B) (late []time.Duration, cpu time.Duration) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	_, text, _ := net.SplitHostPort(server.Listener.Addr().String())
	port, _ := strconv.Atoi(text)
	w, conn := newWorld(), commandsConn(b)
	var mu sync.Mutex
	d := New(Options{
		Conn: conn, Manifest: w.manifest, Sink: w.sink,
		Observe: func(r Run) { mu.Lock(); late = append(late, r.Late); mu.Unlock() },
	})
	for i := range benchPods {
		name := fmt.Sprintf("p%d", i)
		get := exec(func(p *corev1.Probe) {
			p.Exec, p.HTTPGet = nil, &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(int32(port))}
		})
		w.pod(name, kinds{liveness: exec(), readiness: get})
		d.Seed(name, probesSet(name, liveness, readiness), []*journaletv1.ProbeResult{{Kind: readiness, Success: true}})
	}
	ctx, cancel := context.WithTimeout(context.Background(), benchSeconds*time.Second)
	defer cancel()
	before := cpuTime(b)
	_ = d.Run(ctx)
	return late, cpuTime(b) - before
}

func commandsConn(b *testing.B) *grpc.ClientConn {
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, commands{})
	go func() { _ = s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///bench", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(); s.Stop() })
	return conn
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
