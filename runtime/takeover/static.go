package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pattern"
)

const (
	// maxFound bounds the pods of a kubelet that are remembered: more than a node runs.
	maxFound = 4096
	// maxFileBytes bounds the file that notes the pods that were taken over: maxFound pods take 300 KiB.
	maxFileBytes = 1 << 20
)

// generated is a UID that a kubelet, or this agent, gives to a static pod: an MD5 sum.
var generated = pattern.Lazy(`^[0-9a-f]{32}$`)

// Static are the static pods that a kubelet ran. Its methods may be called concurrently. A nil one has none.
type Static struct {
	dir string // the agent's root directory; empty: nothing is noted
	log *slog.Logger

	mu    sync.Mutex
	found map[string]pod    // pods not taken over, by the start of their directory's name: namespace and name
	taken map[string]string // UIDs of pods taken over, by the UID that the agent would have given; in own.StaticPods
	given map[string]bool   // UIDs that the agent has given, of pods in manifests without one
}

type pod struct {
	uid     string
	created time.Time // or later, if something was added to its directory
}

// Read finds the static pods of a kubelet that had the root directory, and wrote their logs into logDir.
func Read(rootDir, logDir string, log *slog.Logger) (*Static, error) {
	s := &Static{dir: rootDir, log: log, found: map[string]pod{}, taken: map[string]string{}, given: map[string]bool{}}
	pods, err := os.OpenRoot(filepath.Join(rootDir, own.Pods))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the directories of a kubelet's pods: %w", err)
	}
	defer pods.Close()
	if err := s.readTaken(pods); err != nil {
		log.Error("it is not known which static pods were taken over from a kubelet, and they are replaced; nothing is to "+
			"be done", "error", err)
	}
	for e, err := range bounded.Entries(logDir) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the names of a kubelet's pods: %w", err)
		}
		if at := strings.LastIndexByte(e.Name(), '_'); at > 0 && generated().MatchString(e.Name()[at+1:]) {
			s.find(pods, e.Name()[:at], e.Name()[at+1:])
		}
	}
	return s, nil
}

// readTaken reads which pods were taken over. One without a directory has gone.
func (s *Static) readTaken(pods *os.Root) error {
	path := filepath.Join(s.dir, own.StaticPods)
	data, err := bounded.ReadFile(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	all := map[string]string{}
	if err := bounded.JSON(data, maxFileBytes, &all); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	for mine, uid := range all {
		if info, err := pods.Lstat(uid); err == nil && info.IsDir() && generated().MatchString(uid) {
			s.taken[mine] = uid
		}
	}
	return nil
}

// find adds a pod that has a directory, and is not taken over. Of several with one name the youngest counts: a kubelet
// ends the others.
func (s *Static) find(pods *os.Root, name, uid string) {
	info, err := pods.Lstat(uid)
	if err != nil || !info.IsDir() || len(s.found) == maxFound || s.found[name].created.After(info.ModTime()) {
		return
	}
	for _, taken := range s.taken {
		if taken == uid {
			return
		}
	}
	s.found[name] = pod{uid: uid, created: info.ModTime()}
}

// UID returns the UID of a static pod: a kubelet's UID for the pod, if the kubelet read the manifest after it was
// written, else mine, which the agent gives. changed is when the manifest was written; zero if that is unknown. added
// reports whether the agent has added a pod with a UID before: such a pod is no kubelet's, and keeps its UID.
func (s *Static) UID(namespace, name, mine string, changed time.Time, added func(uid string) bool) string {
	if s == nil {
		return mine
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if uid := s.taken[mine]; uid != "" {
		return uid
	}
	p, ok := s.found[namespace+"_"+name]
	if !ok || p.uid == mine || added(mine) || added(p.uid) {
		s.given[mine] = true
		return mine
	}
	if changed.After(p.created) {
		s.log.Warn("the manifest of a static pod was written after a kubelet started the pod: the pod is replaced",
			"pod", namespace+"/"+name, "written", changed, "started", p.created)
		s.given[mine] = true
		return mine
	}
	s.taken[mine] = p.uid
	if err := s.write(); err != nil {
		s.log.Error("a static pod of a kubelet is taken over, but this cannot be noted, and the next start of the agent "+
			"replaces the pod; make room on the disk, and write the manifest again", "pod", namespace+"/"+name, "error", err)
	} else {
		s.log.Info("a static pod of a kubelet is taken over", "pod", namespace+"/"+name, "uid", p.uid)
	}
	return p.uid
}

// Unnoted returns s without its notes on the disk: UID changes no file.
func (s *Static) Unnoted() *Static {
	if s != nil {
		s.dir = ""
	}
	return s
}

// Given reports whether UID has given a pod the agent's own UID: a kubelet would give it another one.
func (s *Static) Given(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given[uid]
}

// write notes which pods are taken over.
func (s *Static) write() error {
	if s.dir == "" {
		return nil
	}
	data, err := json.Marshal(s.taken)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(s.dir, own.StaticPods), data)
}
