package kubelet

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pattern"
	"github.com/journalet/journalet/runtime/program"
)

// Bounds of a query of system logs. The first four are the kubelet's (pkg/kubelet/kubelet_server_journal.go).
const (
	maxLogServices   = 4
	maxServiceBytes  = 256
	maxTailLines     = 100_000
	logQueryTimeout  = 30 * time.Second
	logQueryEnd      = 5 * time.Second // for what has been read by the end of a query, to who reads it
	maxPatternBytes  = 4 << 10
	maxLogQueries    = 4 // each may keep a CPU busy
	maxUnitsBytes    = 16 << 20
	maxUnitLineBytes = 64 << 10
	// journalTime is a time as journalctl reads it, in UTC. The kubelet leaves out the zone, so that a node that is not in
	// UTC reads another time.
	journalTime = "2006-01-02 15:04:05 UTC"
)

// unsafeInService is what the name of a service may not have, as in the kubelet.
var unsafeInService = pattern.Lazy(`[^a-zA-Z\-_.:0-9@]`)

// systemQuery is a query of system logs: of services, or of one file.
type systemQuery struct {
	services     []string
	file         string
	files        int
	since, until *time.Time
	tail, boot   *int
	pattern      string
}

// hasOptions reports whether it is about a part of a log.
func (q *systemQuery) hasOptions() bool {
	return q.since != nil || q.until != nil || q.tail != nil || q.boot != nil || q.pattern != ""
}

// systemQuery returns the query of a request, nil if it has none, or an error with its status code.
func (s *Server) systemQuery(r *http.Request) (*systemQuery, int, error) {
	q, errs := parseSystemQuery(r.URL.Query())
	switch {
	case len(errs) > 0:
		return nil, http.StatusBadRequest, errs.ToAggregate()
	case q == nil:
		return nil, 0, nil
	case r.PathValue("path") != "":
		return nil, http.StatusNotAcceptable, errors.New("path not allowed in query mode")
	}
	if errs = append(q.validate(), s.checkFile(q)...); len(errs) > 0 {
		return nil, http.StatusNotAcceptable, errs.ToAggregate()
	}
	return q, 0, nil
}

// parseSystemQuery returns the query in the parameters, nil if they have no query.
func parseSystemQuery(from url.Values) (*systemQuery, field.ErrorList) {
	var errs field.ErrorList
	q := &systemQuery{pattern: from.Get("pattern")}
	for _, one := range from["query"] {
		switch {
		case strings.ContainsAny(one, `/\`): // a file
			q.file = one
			q.files++
		case strings.TrimSpace(one) != "":
			q.services = append(q.services, one)
		}
	}
	if from.Has("query") && q.files == 0 && len(q.services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), from["query"], "may not be empty"))
	}
	at := func(name string) *time.Time {
		text := from.Get(name)
		t, err := time.Parse(time.RFC3339, text)
		if text == "" {
			return nil
		}
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
		}
		return &t
	}
	number := func(name string) *int {
		text := from.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
		}
		return &n
	}
	q.since, q.until, q.tail, q.boot = at("sinceTime"), at("untilTime"), number("tailLines"), number("boot")
	if q.files == 0 && len(q.services) == 0 && !q.hasOptions() {
		return nil, errs
	}
	return q, errs
}

// validate returns what is wrong with a query, in the kubelet's words.
func (q *systemQuery) validate() (errs field.ErrorList) {
	at := field.NewPath("query")
	for _, s := range q.services {
		switch {
		case len(s) > maxServiceBytes:
			errs = append(errs, field.Invalid(at, s[:maxServiceBytes], fmt.Sprintf("length must be less than %d",
				maxServiceBytes)))
		case unsafeInService().MatchString(s), strings.Trim(s, ".") == "": // the kubelet takes "..", and finds nothing
			errs = append(errs, field.Invalid(at, s, "input contains unsupported characters"))
		}
	}
	if len(q.services) > maxLogServices {
		errs = append(errs, field.TooMany(at, len(q.services), maxLogServices))
	}
	switch {
	case q.files == 0 && len(q.services) == 0:
		errs = append(errs, field.Required(at, "cannot be empty with options"))
	case q.files > 0 && len(q.services) > 0:
		errs = append(errs, field.Invalid(at, q.file, "cannot specify a file and service"))
	case q.files > 1:
		errs = append(errs, field.Invalid(at, q.file, "cannot specify more than one file"))
	case q.files == 1 && q.hasOptions():
		errs = append(errs, field.Invalid(at, q.file, "cannot specify file with options"))
	}
	if q.since != nil && q.until != nil && q.since.After(*q.until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), q.until, "must be after `sinceTime`"))
	}
	if q.boot != nil && *q.boot > 0 {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *q.boot, "must be less than 1"))
	}
	if q.tail != nil && (*q.tail < 0 || *q.tail > maxTailLines) {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *q.tail,
			validation.InclusiveRangeError(0, maxTailLines)))
	}
	if len(q.pattern) > maxPatternBytes {
		return append(errs, field.TooLong(field.NewPath("pattern"), "", maxPatternBytes))
	}
	if _, err := syntax.Parse(q.pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), q.pattern, err.Error()))
	}
	return errs
}

// checkFile returns why the file of a query is not in the log directory, and makes its name relative.
func (s *Server) checkFile(q *systemQuery) field.ErrorList {
	if q.files != 1 {
		return nil
	}
	at := field.NewPath("query")
	name := strings.TrimPrefix(strings.ReplaceAll(q.file, `\`, "/"), "/")
	if name != "" && !filepath.IsLocal(name) {
		return field.ErrorList{field.Invalid(at, q.file, "not within the log directory")}
	}
	root, err := os.OpenRoot(s.SystemLogs)
	if err == nil {
		defer root.Close()
		_, _, err = s.follow(root, filepath.Clean(name))
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, q.file, err.Error())}
	}
	q.file = name
	return nil
}

// queryServices serves the logs of services, and ends after 30 s.
func (s *Server) queryServices(w http.ResponseWriter, r *http.Request, q *systemQuery) {
	select {
	case s.logQueries <- struct{}{}:
		defer func() { <-s.logQueries }()
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, fmt.Sprintf("%d queries of system logs are under way; try again.",
			maxLogQueries))
		return
	}
	within(s.queryTimeout+logQueryEnd, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.queryTimeout)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		var out io.Writer = w
		if acceptsGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			zipped, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // fails for another level
			defer zipped.Close()
			out = zipped
		}
		s.copyLogs(ctx, out, q)
	})).ServeHTTP(w, r)
}

func acceptsGzip(r *http.Request) bool {
	return slices.ContainsFunc(strings.Split(r.Header.Get("Accept-Encoding"), ","), func(one string) bool {
		return strings.TrimSpace(one) == "gzip"
	})
}

// copyLogs writes the logs of services. What fails is a line of the output, as in the kubelet.
func (s *Server) copyLogs(ctx context.Context, w io.Writer, q *systemQuery) {
	units := s.unitsOf(ctx, q.services)
	var files []string
	for _, service := range q.services {
		if !units[service] {
			files = append(files, service)
		}
	}
	if len(units) > 0 {
		err := s.journalctl(ctx, func(from io.Reader) error {
			_, err := io.Copy(w, from)
			return err
		}, q.arguments(units)...)
		var exit interface{ ExitCode() int } // it has said what is wrong
		if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
			fmt.Fprintf(w, "\nerror: journal output not available\n")
		}
	}
	switch {
	case len(files) == 0:
	case q.hasOptions():
		fmt.Fprintf(w, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", files)
	default:
		for _, service := range files {
			s.copyFile(ctx, w, service)
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintf(w, "\nerror: the query was ended after %v\n", s.queryTimeout)
	}
}

// arguments returns the arguments of journalctl, as in the kubelet (pkg/kubelet/kubelet_server_journal_linux.go).
func (q *systemQuery) arguments(units map[string]bool) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if q.since != nil {
		args = append(args, "--since="+q.since.UTC().Format(journalTime))
	}
	if q.until != nil {
		args = append(args, "--until="+q.until.UTC().Format(journalTime))
	}
	if q.tail != nil {
		args = append(args, "--pager-end", "--lines="+strconv.Itoa(*q.tail))
	}
	for _, service := range q.services {
		if units[service] {
			args = append(args, "--unit="+service)
		}
	}
	if q.pattern != "" {
		args = append(args, "--grep="+q.pattern)
	}
	if q.boot != nil {
		args = append(args, "--boot", strconv.Itoa(*q.boot))
	}
	return args
}

// unitsOf returns the services whose units the journal of systemd knows. Without a journal it returns no services:
// their logs may be files. journalctl does not fail for a unit that it does not know.
func (s *Server) unitsOf(ctx context.Context, services []string) map[string]bool {
	found := map[string]bool{}
	_ = s.journalctl(ctx, func(from io.Reader) error { // without an answer they are files
		lines := bufio.NewScanner(io.LimitReader(from, maxUnitsBytes))
		lines.Buffer(nil, maxUnitLineBytes)
		for len(found) < len(services) && lines.Scan() {
			for _, service := range services {
				if line := lines.Text(); line == service || line == service+".service" {
					found[service] = true
				}
			}
		}
		return errEnough
	}, "--field", "_SYSTEMD_UNIT")
	return found
}

// errEnough ends a program whose further output nobody needs.
var errEnough = errors.New("enough was read")

// journalctl runs the program and passes what it prints to read. It is killed when read fails, or ctx ends.
func (s *Server) journalctl(ctx context.Context, read func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := program.Command(ctx, s.Journalctl, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	// What the program itself has started may hold its output.
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	err = read(out)
	stop()
	if err != nil {
		cancel()
	}
	return errors.Join(err, cmd.Wait())
}

// copyFile writes the log of a service that logs to a file: the first there is of <service>, <service>.log and
// <service>/<service>.log in the log directory.
func (s *Server) copyFile(ctx context.Context, w io.Writer, service string) {
	root, err := os.OpenRoot(s.SystemLogs)
	if err != nil {
		fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
		return
	}
	defer root.Close()
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		err = s.copyOne(ctx, w, root, name)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(w, "\nlog not found for %s\n", service)
	case err != nil:
		fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
	}
}

// copyOne writes a file of the log directory. A directory counts as none.
func (s *Server) copyOne(ctx context.Context, w io.Writer, root *os.Root, name string) error {
	name, info, err := s.follow(root, name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fs.ErrNotExist
	}
	f, err := bounded.OpenIn(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, untilDone{ctx, f})
	return err
}

// untilDone ends with its context.
type untilDone struct {
	ctx context.Context
	io.Reader
}

// Read reads what is left, until the context ends.
func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
