package sim

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
)

// Bounds of the files that a container's processes keep in memory.
const (
	maxFiles     = 64
	maxFileBytes = 64 << 10
)

// fileSet is a container's own files: path to content, nil content for a removed file.
type fileSet map[string]*string

func (fs fileSet) apply(name string, e Effect) {
	if e.Remove {
		if _, ok := fs[name]; ok || len(fs) < maxFiles {
			fs[name] = nil
		}
		return
	}
	old, ok := fs[name]
	if !ok && len(fs) >= maxFiles {
		return
	}
	text := e.Text
	if e.Append && old != nil {
		text = *old + text
	}
	text = text[:min(len(text), maxFileBytes)]
	fs[name] = &text
}

// hostPath maps a path in the container to the host by the longest mount above it; forWrite refuses read-only ones.
func hostPath(config *cri.ContainerConfig, name string, forWrite bool) (string, bool) {
	name = path.Clean("/" + name)
	var best *cri.Mount
	for _, m := range config.GetMounts() {
		at := path.Clean("/" + m.GetContainerPath())
		if name != at && !strings.HasPrefix(name, strings.TrimSuffix(at, "/")+"/") {
			continue
		}
		if best == nil || len(at) > len(path.Clean("/"+best.GetContainerPath())) {
			best = m
		}
	}
	if best == nil || best.GetHostPath() == "" || (forWrite && best.GetReadonly()) {
		return "", false
	}
	rest := strings.TrimPrefix(name, path.Clean("/"+best.GetContainerPath()))
	return filepath.Join(best.GetHostPath(), rest), true
}

// readFile returns a file's content as a process of the container sees it.
func readFile(config *cri.ContainerConfig, fs fileSet, name string) (string, error) {
	name = path.Clean("/" + name)
	if text, ok := fs[name]; ok {
		if text == nil {
			return "", os.ErrNotExist
		}
		return *text, nil
	}
	host, ok := hostPath(config, name, false)
	if !ok {
		return "", os.ErrNotExist
	}
	b, err := bounded.ReadFile(host, maxFileBytes)
	switch {
	case errors.Is(err, bounded.ErrNotRegular):
		return "", errors.New("not a regular file")
	case errors.Is(err, bounded.ErrTooLarge):
		return "", fmt.Errorf("larger than the %d bytes that a simulated process reads", maxFileBytes)
	case err != nil:
		return "", os.ErrNotExist
	}
	return string(b), nil
}

// writeHost lets an effect happen on the host.
func writeHost(host string, e Effect) error {
	if e.Remove {
		return os.Remove(host)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if e.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(host, flags, 0o644) //nolint:gosec // G302: what a container writes, others may read
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.Text)
	return errors.Join(err, f.Close())
}
