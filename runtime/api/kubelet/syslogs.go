package kubelet

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
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
}

// systemLogs serves the files of the node's log directory: regular ones alone, and none through a link.
func (s *Server) systemLogs(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("query") {
		fail(w, http.StatusMethodNotAllowed, "queries of system logs are not served by this agent.")
		return
	}
	root, err := os.OpenRoot(s.SystemLogs)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer root.Close()
	name := path.Clean("/" + r.PathValue("path"))[1:]
	if name == "" {
		name = "."
	}
	info, err := root.Lstat(name)
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
