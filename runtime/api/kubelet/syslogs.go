package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxListed bounds the entries of a directory in one page.
	maxListed = 10_000
	// fileTimeout bounds the transfer of one file.
	fileTimeout = 30 * time.Minute
)

func (s *Server) systemLogRoutes() {
	if s.SystemLogs == "" {
		s.handle("", "/logs/", disabled("logs endpoint is disabled."))
		return
	}
	s.handle(http.MethodGet, "/logs/{path...}", within(fileTimeout, http.HandlerFunc(s.systemLogs)))
	if s.SystemLogQuery {
		s.handle(http.MethodPost, "/logs/{path...}", within(fileTimeout, http.HandlerFunc(s.systemLogs)))
	}
}

// systemLogs serves files of the node's log directory, or what a query names.
func (s *Server) systemLogs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("path")
	switch {
	case !s.SystemLogQuery && r.URL.Query().Has("query"):
		fail(w, http.StatusMethodNotAllowed, "queries of system logs are disabled; set enableSystemLogQuery.")
		return
	case s.SystemLogQuery:
		q, code, err := s.systemQuery(r)
		switch {
		case err != nil:
			fail(w, code, err.Error())
			return
		case q != nil && len(q.services) > 0:
			s.queryServices(w, r, q)
			return
		case q != nil:
			name = q.file
		case r.Method == http.MethodPost:
			w.Header().Set("Allow", http.MethodGet)
			fail(w, http.StatusMethodNotAllowed, "only queries of services may be posted.")
			return
		}
	}
	s.systemLog(w, r, strings.TrimPrefix(path.Clean("/"+name), "/"))
}

// systemLog serves a file of the node's log directory, or the names of a directory there: regular files alone, and no
// link that leads out of it.
func (s *Server) systemLog(w http.ResponseWriter, r *http.Request, name string) {
	root, err := os.OpenRoot(s.SystemLogs)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer root.Close()
	name, info, err := s.follow(root, cmp.Or(name, "."))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.NotFound(w, r)
	case err != nil:
		fail(w, http.StatusForbidden, "not within the log directory")
	case info.IsDir():
		list(w, r, root, name)
	default:
		f, err := bounded.OpenIn(root, name)
		if err != nil {
			fail(w, http.StatusForbidden, "not a regular file of the log directory")
			return
		}
		defer f.Close()
		// A log is text, whatever its content looks like to a browser.
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		http.ServeContent(w, r, "", info.ModTime(), f)
	}
}

// follow follows the links of a name that stay in the log directory: the links in /var/log/containers are absolute.
func (s *Server) follow(root *os.Root, name string) (string, fs.FileInfo, error) {
	known := []string{s.SystemLogs}
	if target, err := filepath.EvalSymlinks(s.SystemLogs); err == nil {
		known = append(known, target)
	}
	return bounded.FollowIn(root, name, known...)
}

// list serves the names of a directory, as a page with links.
func list(w http.ResponseWriter, r *http.Request, root *os.Root, dir string) {
	if !strings.HasSuffix(r.URL.Path, "/") {
		http.Redirect(w, r, path.Base(r.URL.Path)+"/", http.StatusMovedPermanently)
		return
	}
	var names []string
	more := false
	for e, err := range bounded.EntriesIn(root, dir) {
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		if more = len(names) == maxListed; more {
			break
		}
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintln(w, "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>")
	for _, name := range names {
		fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n", html.EscapeString((&url.URL{Path: name}).String()), html.EscapeString(name))
	}
	if more {
		fmt.Fprintf(w, "the first %d names\n", maxListed)
	}
	fmt.Fprintln(w, "</pre>")
}
