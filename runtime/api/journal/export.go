package journal

import (
	"bufio"
	"context"
	"net/http"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
)

// exportBuffer is how much of a bundle is written at once.
const exportBuffer = 256 << 10

// export answers with a bundle of the pods that the parameter pod names, of the newest records.
func (s *server) export(w http.ResponseWriter, r *http.Request) error {
	p := parametersOf(r.URL)
	pods := p.all("pod")
	if err := p.end(); err != nil {
		return err
	}
	if len(pods) == 0 {
		return badRequest("no pod is given: want a name, namespace/name or UID")
	}
	ctx, cancel := context.WithTimeout(r.Context(), exportTimeout)
	defer cancel()
	src, err := s.History(ctx)
	if err != nil {
		return err
	}
	o := bundle.Options{Pods: pods, From: newest(src, maxExported), Version: s.Version, Now: s.Now()}
	w.Header().Set("Content-Type", "application/zstd")
	out := bufio.NewWriterSize(w, exportBuffer)
	if _, err := bundle.Export(ctx, src, out, o); err != nil {
		return err
	}
	return out.Flush()
}

// newest returns the first of the newest n records; 0 for a journal that has no more than n.
func newest(src history.Reader, n uint64) uint64 {
	first, last := src.Bounds()
	if last < first+n {
		return 0
	}
	return last - n + 1
}
