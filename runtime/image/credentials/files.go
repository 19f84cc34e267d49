package credentials

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/runtime/bounded"
)

// Names of registry files.
const (
	configJSON = "config.json"
	dockercfg  = ".dockercfg"
)

// place is a directory with a registry file, and how the file is read.
type place struct {
	path  string
	parse func([]byte) (dockerConfig, error)
}

// places returns where registry files are, in the kubelet's order: the root directory, the working directory, the home
// and the root of the file system; for config.json the directory .docker of the latter two.
func places(rootDir string) (all []place) {
	home, err := os.UserHomeDir()
	add := func(name string, parse func([]byte) (dockerConfig, error), below string) {
		dirs := []string{rootDir, "."}
		if err == nil {
			dirs = append(dirs, filepath.Join(home, below))
		}
		for _, dir := range append(dirs, filepath.Join("/", below)) {
			if path, err := filepath.Abs(filepath.Join(dir, name)); dir != "" && err == nil {
				all = append(all, place{path, parse})
			}
		}
	}
	add(configJSON, parseConfigJSON, ".docker")
	add(dockercfg, parseDockercfg, "")
	return all
}

// nodeConfig returns the first registry file of the node that can be read, and as a problem each one before it that
// cannot. A pull is rare enough to read it each time.
func nodeConfig(rootDir string, log *slog.Logger) (config dockerConfig, problems []string) {
	for _, p := range places(rootDir) {
		data, err := bounded.ReadFile(p.path, maxConfigBytes)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err == nil {
			if config, err = p.parse(data); err == nil {
				return config, problems
			}
		}
		log.Warn("a registry file is not used", "file", p.path, "error", err)
		problems = append(problems, p.path+" cannot be read")
	}
	return nil, problems
}
