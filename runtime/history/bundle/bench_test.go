package bundle

import (
	"bytes"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func BenchmarkOpen(b *testing.B) {
	data := small(b)
	b.ReportAllocs()
	for range b.N {
		_, err := New(bytes.NewReader(data), int64(len(data)), "bench")
		must.OK(b, err)
	}
}

func BenchmarkReadAll(b *testing.B) {
	data := small(b)
	b.ReportAllocs()
	for range b.N {
		r, err := New(bytes.NewReader(data), int64(len(data)), "bench")
		must.OK(b, err)
		readEach(b.Context(), r)
	}
}
