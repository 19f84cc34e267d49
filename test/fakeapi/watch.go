package fakeapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// maxFrames bounds what a watch has not sent yet. A watch that falls behind further is ended, as by the real server.
const maxFrames = 10_000

// frame is one event of a watch.
type frame struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// watch is one open watch.
type watch struct {
	resource, namespace, selector, labels string
	bookmarks                             bool
	frames                                chan frame
	done                                  chan struct{}
	ended                                 bool
}

// end ends a watch, once. The caller holds s.mu.
func (s *Server) end(w *watch) {
	if !w.ended {
		w.ended = true
		close(w.done)
	}
	delete(s.watches, w)
}

func (w *watch) send(f frame) {
	select {
	case w.frames <- f:
	default:
		if !w.ended {
			w.ended = true
			close(w.done)
		}
	}
}

func (w *watch) matches(o object) bool {
	return o != nil && o.selects(w.selector) && o.hasLabels(w.labels)
}

// sendChange sends a change as the watch sees it: what comes into its selection is added, what leaves it is deleted.
func (w *watch) sendChange(c change) {
	if c.key.resource != w.resource || w.namespace != "" && w.namespace != c.key.namespace {
		return
	}
	switch was, is := w.matches(c.before), w.matches(c.after); {
	case is && was:
		w.send(frame{"MODIFIED", c.after})
	case is:
		w.send(frame{"ADDED", c.after})
	case was:
		gone := c.before.clone()
		gone.meta()["resourceVersion"] = strconv.Itoa(c.version)
		w.send(frame{"DELETED", gone})
	}
}

// bookmark returns the object of a bookmark at the current version; initial marks the end of the initial events. The
// caller holds s.mu.
func (s *Server) bookmark(resource string, initial bool) object {
	meta := map[string]any{"resourceVersion": strconv.Itoa(s.version), "creationTimestamp": nil}
	if initial {
		meta["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	}
	return object{"apiVersion": kinds[resource].apiVersion, "kind": kinds[resource].kind, "metadata": meta}
}

// open begins a watch with what it must send first.
func (s *Server) open(r APIRequest) (*watch, error) {
	query := r.HTTP.URL.Query()
	w := &watch{
		resource: r.Resource, namespace: r.Namespace, selector: selectorOf(r), labels: query.Get("labelSelector"),
		bookmarks: query.Get("allowWatchBookmarks") == "true",
		frames:    make(chan frame, maxFrames), done: make(chan struct{}),
	}
	initial := query.Get("sendInitialEvents") == "true"
	if initial && s.NoWatchList {
		return nil, &refusal{http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents: Forbidden: not supported"}
	}
	from, err := strconv.Atoi(cmp.Or(query.Get("resourceVersion"), "0"))
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, "BadRequest", "resourceVersion: " + err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case from > s.version:
		return nil, &refusal{http.StatusGatewayTimeout, "Timeout", "Too large resource version"}
	case initial || from == 0:
		for _, o := range s.list(w.resource, w.namespace, w.matches, 0) {
			w.send(frame{"ADDED", o})
		}
		if initial {
			w.send(frame{"BOOKMARK", s.bookmark(w.resource, true)})
		}
	case from < s.oldest:
		w.send(frame{"ERROR", status(http.StatusGone, "Expired", "too old resource version")})
	default:
		for _, c := range s.history {
			if c.version > from {
				w.sendChange(c)
			}
		}
	}
	s.watches[w] = true
	return w, nil
}

// list returns the objects of a resource in order of their names; of a version unless that is 0. The caller holds
// s.mu.
func (s *Server) list(resource, namespace string, matches func(object) bool, version int) []object {
	at := map[key]object{}
	for k, o := range s.objects {
		at[k] = o
	}
	for i := len(s.history) - 1; version > 0 && i >= 0 && s.history[i].version > version; i-- {
		at[s.history[i].key] = s.history[i].before
	}
	all := make([]object, 0, len(at))
	for k, o := range at {
		if k.resource == resource && (namespace == "" || namespace == k.namespace) && o != nil && matches(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.text("metadata", "namespace"), b.text("metadata", "namespace")),
			cmp.Compare(a.text("metadata", "name"), b.text("metadata", "name")))
	})
	return all
}

// serveWatch sends frames until the watch or its client ends, or its timeout is over.
func (s *Server) serveWatch(rw http.ResponseWriter, r APIRequest) error {
	w, err := s.open(r)
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(w)
	}()
	var timeout <-chan time.Time
	if n, err := strconv.Atoi(r.HTTP.URL.Query().Get("timeoutSeconds")); err == nil && n > 0 {
		timer := time.NewTimer(time.Duration(n) * time.Second)
		defer timer.Stop()
		timeout = timer.C
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(rw).Flush
	_ = flush()
	out := encoder(rw)
	for {
		select {
		case f := <-w.frames:
			if out.Encode(f) != nil || flush() != nil {
				return nil //nolint:nilerr // the client is gone
			}
		case <-w.done:
			for len(w.frames) > 0 {
				_ = out.Encode(<-w.frames)
			}
			_ = flush()
			return nil
		case <-r.HTTP.Context().Done():
			return nil
		case <-timeout:
			return nil
		}
	}
}
