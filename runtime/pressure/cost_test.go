package pressure

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/journalet/journalet/actors/pressure"
	"github.com/journalet/journalet/runtime/stats"
	"github.com/journalet/journalet/runtime/stats/usage"
)

// BenchmarkSample is what one sample costs.
func BenchmarkSample(b *testing.B) {
	conn, err := grpc.NewClient("unix:///nonexistent", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	s := stats.New(stats.Options{
		Conn: conn, RootDir: b.TempDir(), Reader: usage.NewReader("/", false), PodsCgroup: func() string { return "/" },
	})
	b.ReportAllocs()
	for b.Loop() {
		Measured(s.Signals(b.Context(), func(int64) int64 { return pressure.Highest(nil, pressure.MemoryAvailable, 1) }))
	}
}
