package cri

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// sandboxSeccomp is the profile of pause processes, in the format of OCI runtimes. Its groups allow the system calls
// that a process needs to wait for signals and reap children, that a libc or a language runtime needs to start, and
// that runc and crun make between loading the filter and exec. All others return ENOSYS, so that programs fall back.
//
//go:embed sandbox_seccomp.json
var sandboxSeccomp []byte

// sandboxSeccompFile is the profile's name in the directory of WriteSandboxSeccomp.
const sandboxSeccompFile = own.SandboxSeccomp

// WriteSandboxSeccomp atomically writes the profile of pause processes (docs/adr/010) into an existing directory, and
// returns its path for Security.SandboxSeccomp. The runtime must see it under the same path.
func WriteSandboxSeccomp(dir string) (string, error) {
	path := filepath.Join(dir, sandboxSeccompFile)
	if b, err := bounded.ReadFile(path, int64(len(sandboxSeccomp))); err == nil && bytes.Equal(b, sandboxSeccomp) {
		return path, nil // needs no space on a full disk
	}
	part := path + ".part"
	err := os.WriteFile(part, sandboxSeccomp, 0o600)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return "", fmt.Errorf("write the seccomp profile of sandboxes: %w", err)
	}
	return path, nil
}

// sandboxProfile returns the seccomp profile of a pause process. The pod cannot choose it: pause runs none of its code.
func (d *Driver) sandboxProfile() *runtimeapi.SecurityProfile {
	if d.opts.Security.SandboxSeccomp == "" {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	}
	return &runtimeapi.SecurityProfile{
		ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: d.opts.Security.SandboxSeccomp,
	}
}
