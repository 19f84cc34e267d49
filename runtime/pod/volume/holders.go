package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

// Bounds of the search for the holders of a mount.
const (
	// searchTime is far more than a node with thousands of processes takes.
	searchTime = 2 * time.Second
	// maxNamedHolders bounds how many processes an error names.
	maxNamedHolders = 5
	// maxProcBytes bounds what is read of one file of /proc: a mount table of some thousand lines.
	maxProcBytes = 4 << 20
	// maxFiles bounds the open files of a process that are inspected.
	maxFiles = 1 << 16
)

// holdersOf returns the processes that keep a mount busy, for an error: " by process 12 (sh), 14 (sleep); end them". It
// reads only /proc, whose files block on no file system. A process that holds it by a mapped file alone is not found.
func holdersOf(ctx context.Context, p mountPoint) string { return holders(ctx, p, "") }

// holdersAt is holdersOf for a file system that is mounted at other places, too, as an export is for all of its pods.
// It returns only holders of the mount at this path.
func holdersAt(ctx context.Context, p mountPoint) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(p.path))
	if err != nil {
		return ""
	}
	return holders(ctx, p, filepath.Join(dir, filepath.Base(p.path)))
}

func holders(ctx context.Context, p mountPoint, at string) string {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	s := search{device: p.device, at: at, tables: map[string]mountTable{}}
	for e, err := range bounded.Entries("/proc") {
		if err != nil || ctx.Err() != nil || len(s.found) == maxNamedHolders {
			break
		}
		if _, err := strconv.Atoi(e.Name()); err == nil {
			s.inspect(filepath.Join("/proc", e.Name()), e.Name())
		}
	}
	if len(s.found) == 0 {
		return ", by no process that can be found"
	}
	return " by process " + strings.Join(s.found, ", ") + "; end it"
}

// search looks for processes with files on a device.
type search struct {
	device string
	// at is the path of the mount; empty: any.
	at     string
	tables map[string]mountTable // by mount namespace
	found  []string
}

// mountTable has the mounts of the device in a mount namespace, their paths by id.
type mountTable map[string]string

func (s *search) inspect(dir, pid string) {
	table := s.table(dir)
	if len(table) == 0 {
		return
	}
	how := heldLink(dir, table)
	if how == "" && heldFile(dir, table) {
		how = "an open file"
	}
	if how == "" {
		return
	}
	name, _ := bounded.ReadFile(filepath.Join(dir, "comm"), maxNameBytes)
	s.found = append(s.found, fmt.Sprintf("%s (%s, %s)", pid, strings.TrimSpace(string(name)), how))
}

// table returns the mounts of the device that a process sees; none if it has ended.
func (s *search) table(dir string) mountTable {
	namespace, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
	if err != nil {
		return nil
	}
	table, ok := s.tables[namespace]
	if ok {
		return table
	}
	table = mountTable{}
	text, err := bounded.ReadFile(filepath.Join(dir, "mountinfo"), maxProcBytes)
	if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		// The id, the parent's, the device, the root, and the path.
		if f := strings.Fields(line); len(f) > 4 && f[2] == s.device && (s.at == "" || f[4] == s.at) {
			table[f[0]] = f[4]
		}
	}
	s.tables[namespace] = table
	return table
}

// heldLink returns which of its own paths a process has on one of the mounts; "" if none.
func heldLink(dir string, table mountTable) string {
	for name, what := range map[string]string{"cwd": "its working directory", "root": "its root", "exe": "its program"} {
		to, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		for _, path := range table {
			if to == path || strings.HasPrefix(to, strings.TrimSuffix(path, "/")+"/") {
				return what
			}
		}
	}
	return ""
}

// heldFile reports whether a process has a file open on one of the mounts.
func heldFile(dir string, table mountTable) bool {
	files := 0
	for e, err := range bounded.Entries(filepath.Join(dir, "fdinfo")) {
		if files++; err != nil || files > maxFiles {
			return false
		}
		info, err := bounded.ReadFile(filepath.Join(dir, "fdinfo", e.Name()), maxNameBytes)
		if err != nil && !errors.Is(err, bounded.ErrTooLarge) {
			continue
		}
		_, rest, _ := strings.Cut(string(info), "mnt_id:")
		id, _, _ := strings.Cut(rest, "\n")
		if _, ok := table[strings.TrimSpace(id)]; ok {
			return true
		}
	}
	return false
}
