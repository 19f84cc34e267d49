package cri

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxSeccomp is the profile of pause processes, in the form that OCI runtimes read: by groups, what such a process
// does while it waits for signals and reaps, what a libc or a language's start needs, and what runc and crun do between
// loading the filter and executing it. Everything else reads as not implemented (ENOSYS), so that programs fall back.
//
//go:embed sandbox_seccomp.json
var sandboxSeccomp []byte

// sandboxSeccompFile is the profile's name in the folder that WriteSandboxSeccomp is given.
const sandboxSeccompFile = "sandbox-seccomp.json"

// WriteSandboxSeccomp writes the profile of pause processes (docs/adr/010) into an existing folder, in one step, and
// gives its path for Options.SandboxSeccomp. The runtime has to see it under the same path.
func WriteSandboxSeccomp(dir string) (string, error) {
	path := filepath.Join(dir, sandboxSeccompFile)
	if b, err := os.ReadFile(path); err == nil && bytes.Equal(b, sandboxSeccomp) {
		return path, nil // no need of room on a full disk
	}
	part := path + ".part"
	err := os.WriteFile(part, sandboxSeccomp, 0o600)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return "", fmt.Errorf("the seccomp profile of sandboxes cannot be written: %w", err)
	}
	return path, nil
}

// sandboxProfile is the seccomp profile of a pause process: it runs nothing of the pod's, so the pod has no say in it.
func (d *Driver) sandboxProfile() *runtimeapi.SecurityProfile {
	if d.opts.SandboxSeccomp == "" {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: d.opts.SandboxSeccomp}
}
