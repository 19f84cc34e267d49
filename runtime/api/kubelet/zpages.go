package kubelet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

// profileTimeout bounds a profile or a trace; the client names how long it takes.
const profileTimeout = 5 * time.Minute

// component is the name that the pages carry.
const component = "kubelet"

// pageHeader is the text before such a page; it follows the kubelet's form, which no program is to parse.
const pageHeader = "\n%s %s\nWarning: This page is for people: its form changes without notice.\n\n"

// About is what /statusz shows.
type About struct {
	// Version is the agent's; Started the start of this run.
	Version string
	Started time.Time
}

func (s *Server) pageRoutes() {
	if s.Config != nil {
		s.get("/configz", s.configz)
	} else {
		s.get("/configz", absent("configz").ServeHTTP)
	}
	if s.Flags != nil {
		s.get("/flagz", s.flagz)
	} else {
		s.get("/flagz", absent("flagz").ServeHTTP)
	}
	s.get("/statusz", s.statusz)
	s.debugRoutes()
}

// configz serves the configuration that is in effect, under the kubelet's name.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	data, err := json.Marshal(map[string]any{"kubeletconfig": s.Config()})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, data)
}

// flagz serves the flags with their values.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	if structured(w, r, "Flagz", s.flagzObject) {
		return
	}
	all := s.Flags()
	var b strings.Builder
	fmt.Fprintf(&b, pageHeader, component, "flagz")
	for _, f := range all {
		fmt.Fprintf(&b, "%s=%s\n", f.Name, f.Value)
	}
	fail(w, http.StatusOK, b.String())
}

// Flag is a flag with its value.
type Flag struct{ Name, Value string }

// statusz serves what this process is.
func (s *Server) statusz(w http.ResponseWriter, r *http.Request) {
	if structured(w, r, "Statusz", s.statuszObject) {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, pageHeader, component, "statusz")
	up := time.Since(s.About.Started).Round(time.Second)
	fmt.Fprintf(&b, "Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n\nPaths: %s\n",
		s.About.Started.Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		runtime.Version(), s.About.Version, strings.Join(s.listed(), " "))
	fail(w, http.StatusOK, b.String())
}

// listed returns the registered paths.
func (s *Server) listed() []string {
	return slices.Compact(slices.Sorted(slices.Values(s.paths)))
}

// debugRoutes registers profiles and the verbosity of the log.
func (s *Server) debugRoutes() {
	if s.NoProfiling {
		s.handle("", "/debug/pprof/", disabled("profiling endpoint is disabled."))
	} else {
		for path, h := range map[string]http.HandlerFunc{
			"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "cmdline": s.cmdline, "trace": pprof.Trace,
			"{name}": pprof.Index,
		} {
			s.handle(http.MethodGet, "/debug/pprof/"+path, within(profileTimeout, h))
		}
	}
	switch {
	case s.NoDebugFlags:
		s.handle("", "/debug/flags/v", disabled("flags endpoint is disabled."))
	case s.SetVerbosity == nil:
		s.handle("", "/debug/flags/v", absent("debug/flags/v"))
	default:
		s.handle("", "/debug/flags/v", prompt(http.HandlerFunc(s.verbosity)))
	}
}

// cmdline serves the program and its flags in the form of a command line. They are the flags of /flagz: arguments as
// they were given may hold credentials.
func (s *Server) cmdline(w http.ResponseWriter, _ *http.Request) {
	args := []string{os.Args[0]}
	if s.Flags != nil {
		for _, f := range s.Flags() {
			args = append(args, "--"+f.Name+"="+f.Value)
		}
	}
	fail(w, http.StatusOK, strings.Join(args, "\x00"))
}

// verbosity sets the verbosity of the log to the number in the body.
func (s *Server) verbosity(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		fail(w, http.StatusNotAcceptable, "unsupported http method\n")
		return
	}
	body, err := bounded.ReadAll(r.Body, maxBodyBytes)
	if err != nil {
		fail(w, http.StatusBadRequest, "error reading request body: "+err.Error()+"\n")
		return
	}
	level, err := strconv.ParseUint(strings.TrimSpace(string(body)), 10, 8)
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Sprintf("failed set klog.logging.verbosity %s: %v\n", body, err))
		return
	}
	s.SetVerbosity(int(level))
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, fmt.Sprintf("successfully set klog.logging.verbosity to %s\n", body)) // the client has left
}
