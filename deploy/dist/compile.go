package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// binary is the file of the static binary.
func (r release) binary(arch string) string { return filepath.Join(r.out, "journalet-linux-"+arch) }

// compile builds a binary whose bytes depend on the source, the version and Go's version, and on no directory.
func (r release) compile(ctx context.Context, arch string) error {
	return build(ctx, r.root, "./cmd/journalet", r.binary(arch), arch,
		"-X github.com/journalet/journalet/runtime/agent.Version="+r.version)
}

// build builds a package of the module in dir. Neither the symbols for debuggers (-s -w) nor the linker's id are in it:
// stack traces and profiles have their names without them.
func build(ctx context.Context, dir, pkg, out, arch, ldflags string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", //nolint:gosec // ours
		"-ldflags", "-s -w -buildid= "+ldflags, "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", pkg, arch, err, text)
	}
	return nil
}

// texts are the files of packages that are the same on each architecture, and are written by programs.
type texts struct {
	manual      map[string][]byte // by name: journalet-pods.1
	completions map[string][]byte // by shell
	notices     []byte            // the licences of all modules inside, in full
	licences    map[string]string // SPDX expression by "module version"
}

// readTexts asks the binary of this machine for its commands, and the repository for its licences.
func (r release) readTexts(ctx context.Context) (texts, error) {
	t := texts{completions: map[string][]byte{}}
	list, err := r.journalet(ctx, "commands")
	if err != nil {
		return t, err
	}
	var commands []command
	if err := json.Unmarshal(list, &commands); err != nil {
		return t, fmt.Errorf("read the output of journalet commands: %w", err)
	}
	t.manual = manual(commands, r.version, r.date)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if t.completions[shell], err = r.journalet(ctx, "completion", shell); err != nil {
			return t, err
		}
	}
	if t.notices, err = r.notices(ctx); err != nil {
		return t, err
	}
	list, err = os.ReadFile(filepath.Join(r.root, "docs", "third-party.txt"))
	t.licences = licencesOf(string(list))
	return t, err
}

// journalet returns what the binary of this machine prints.
func (r release) journalet(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.binary(runtime.GOARCH), args...) //nolint:gosec // just built
	// No JOURNALET_ROOT_DIR: it would be a default in the manual.
	cmd.Env = []string{"HOME=/nonexistent"}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("journalet %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return out, nil
}

// notices returns the texts of the licences of what is built in.
func (r release) notices(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./licences", "-root", r.root, "-texts") //nolint:gosec // ours
	cmd.Dir = filepath.Join(r.root, "test", "tools", "supply")
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("collect the licences: %w: %s", err, problems.String())
	}
	return out, nil
}

// licencesOf reads the first list of docs/third-party.txt: "module version LICENCE, LICENCE" a line.
func licencesOf(thirdParty string) map[string]string {
	out := map[string]string{}
	_, list, _ := strings.Cut(thirdParty, "Built into journalet:\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); len(f) == 3 {
			out[f[0]+" "+f[1]] = strings.ReplaceAll(f[2], ", ", " AND ")
		}
	}
	return out
}
