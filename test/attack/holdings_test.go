//go:build attack

package attack

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/journalet/journalet/test/node"
)

// maxPage bounds a page of the agent's health server.
const maxPage = 8 << 20

// holdings is what a process holds of the system.
type holdings struct {
	descriptors []string // what each is open on, without numbers
	goroutines  int
	requesting  int // also counted above, of connections to the API server: how many there are depends on the moment
	watching    int // also counted above, each filters a watch: a refused watch is there again a pause later
	children    []string
	stacks      string // of all goroutines, for a failure's message
}

// connection is on the stack of a connection's own goroutines, and not on the stack of the goroutine that sends a
// request.
var connection = regexp.MustCompile(`net/http\.\(\*persistConn\)\.(read|write)Loop\+`)

var total = regexp.MustCompile(`^goroutine profile: total (\d+)`)

// holdings reads what the agent holds now.
func (g *target) holdings() holdings {
	g.Helper()
	dir := fmt.Sprintf("/proc/%d", g.Process.Cmd.Process.Pid)
	var h holdings
	fds, _ := filepath.Glob(dir + "/fd/*") // the pattern is valid
	for _, fd := range fds {
		// One that is closed meanwhile is not held.
		if to, err := os.Readlink(fd); err == nil {
			h.descriptors = append(h.descriptors, to)
		}
	}
	slices.Sort(h.descriptors)
	tasks, _ := filepath.Glob(dir + "/task/*/children")
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		h.children = append(h.children, strings.Fields(string(b))...)
	}
	h.stacks, _ = g.page("/debug/pprof/goroutine?debug=1")
	if m := total.FindStringSubmatch(h.stacks); m != nil {
		h.goroutines, _ = strconv.Atoi(m[1])
	}
	for group := range strings.SplitSeq(h.stacks, "\n\n") {
		n, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(group, "@", 2)[0]))
		switch {
		case connection.MatchString(group):
			h.requesting += n
		case strings.Contains(group, "watch.(*filteredWatch).loop"):
			h.watching += n
		}
	}
	return h
}

// maxRequesting is more goroutines than the connections of one client to the API server have: two each.
const maxRequesting = 64

// maxWatching is more than the agent watches in these tests.
const maxWatching = 16

// beyond returns an error if there is more than before. The journal may have added a file: blocks rotate.
func (h holdings) beyond(before holdings) error {
	switch {
	case h.goroutines == 0:
		return fmt.Errorf("the agent serves no profile: %.200s", h.stacks)
	case len(h.children) > 0:
		return fmt.Errorf("the agent has child processes: %v", h.children)
	case h.requesting > maxRequesting:
		return fmt.Errorf("%d goroutines send requests", h.requesting)
	case len(h.descriptors)-h.requesting/2 > len(before.descriptors)-before.requesting/2+1:
		return fmt.Errorf("%d descriptors, %d before: %s", len(h.descriptors), len(before.descriptors),
			strings.Join(h.descriptors, " "))
	case h.watching > maxWatching:
		return fmt.Errorf("%d goroutines watch", h.watching)
	case h.goroutines-h.requesting-h.watching > before.goroutines-before.requesting-before.watching:
		return fmt.Errorf("%d goroutines, %d before:\n%s\nbefore:\n%s",
			h.goroutines, before.goroutines, h.stacks, before.stacks)
	}
	return nil
}

// page returns a page of the agent's health server.
func (g *target) page(path string) (string, error) {
	ctx, cancel := node.Bounded()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", g.port, path), nil)
	if err != nil {
		return "", err
	}
	req.Close = true // an idle connection is a descriptor of the agent
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	return string(b), err
}

// healthyBut returns an error unless /healthz passes, but for one check.
func (g *target) healthyBut(check string) error {
	text, err := g.page("/healthz?verbose")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "[-]") && (check == "" || !strings.HasPrefix(line, "[-]"+check+" ")) {
			return fmt.Errorf("/healthz: %s", line)
		}
	}
	return err
}

// memory returns a process's resident memory in bytes; 0 once it has ended.
func memory(p *node.Process) int { return statusBytes(p, "VmRSS") }

// peak returns the most that memory has been.
func peak(p *node.Process) int { return statusBytes(p, "VmHWM") }

func statusBytes(p *node.Process, field string) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	_, text, _ := strings.Cut(string(b), field+":")
	kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]), " kB"))
	return kib << 10
}
