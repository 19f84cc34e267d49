package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/journalet/journalet/test/cluster"
)

const (
	// kubeletRoot is the root directory of the agent: upstream's tests of one node know no other.
	kubeletRoot = "/var/lib/kubelet"
	// nodeToken is what the agent and the specs show to the API server of upstream's harness, which listens on loopback
	// and lasts as long as the run.
	nodeToken = "e2e-node"
	nodeTests = string(cluster.E2ENode)
	// harnessTimeout is how long an end of the harness may take.
	harnessTimeout = 2 * time.Minute
	// readyTimeout is how long the harness may take to have a node.
	readyTimeout = 5 * time.Minute
	// anySystem is what upstream's validation of the machine is to find: its own specification is about distributions.
	anySystem = "os: Linux\nkernelSpec:\n  versions: ['.*']\n"
)

// startNode starts the services of upstream's harness (etcd, an API server, a controller of namespaces), and has the
// harness start the agent as its kubelet. The agent's program is a link with that name.
func (h *host) startNode(ctx context.Context, programs string) error {
	if err := h.prepareNode(ctx, programs); err != nil {
		return err
	}
	progress("images")
	if err := h.serve(ctx, programs); err != nil {
		return err
	}
	for _, part := range []struct{ name, mode string }{
		{"the API server of upstream's harness", "--run-services-mode"},
		{"the node", "--run-kubelet-mode"},
	} {
		progress("%s", part.name)
		if err := h.startHarness(ctx, part.mode); err != nil {
			return err
		}
	}
	return h.awaitNode(ctx, programs)
}

// awaitNode waits until the Node is ready: each spec's process wants a Node when it begins.
func (h *host) awaitNode(ctx context.Context, programs string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return cluster.Until(ctx, func() error {
		get := h.kubectl(ctx, programs, "get", "nodes", "-o",
			`jsonpath={.items[0].status.conditions[?(@.type=="Ready")].status}`)
		if out, err := get.Output(); err != nil || string(out) != "True" {
			return errors.Join(fmt.Errorf("no Node is ready within %s: see %s", readyTimeout, h.dir), err)
		}
		return nil
	})
}

// prepareNode makes the directory of the harness: the agent as kubelet, beside the program of the tests, which looks
// there; the stand-ins for systemd; what validates the machine.
func (h *host) prepareNode(ctx context.Context, programs string) error {
	if _, err := os.Lstat(kubeletRoot); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is there, which these specs use: remove it if no kubelet runs here", kubeletRoot),
			err)
	}
	h.closers = append(h.closers, func(context.Context) error { return cluster.Remove(kubeletRoot) })
	if err := os.Mkdir(kubeletRoot, 0o750); err != nil {
		return err
	}
	// Specs mount volumes with propagation: systemd would have shared the mounts of the whole machine.
	if err := share(kubeletRoot); err != nil {
		return err
	}
	bin := h.nodePath("bin")
	if err := os.MkdirAll(bin, 0o755); err != nil { //nolint:gosec // programs
		return err
	}
	root, err := cluster.Checkout()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./test/cluster/units") //nolint:gosec // ours
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the stand-in for systemd: %w\n%s", err, out)
	}
	links := map[string]string{"kubelet": h.program, nodeTests: filepath.Join(programs, nodeTests),
		"systemd-run": "units", "systemctl": "units", "sudo": "units"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(h.nodePath("system.yaml"), []byte(anySystem), 0o600)
}

func (h *host) nodePath(name string) string { return filepath.Join(h.dir, name) }

// nodeEnv is the environment of the harness and the specs: the stand-ins come before the machine's own programs.
func (h *host) nodeEnv() []string {
	return append(os.Environ(), "UNITS_DIR="+h.dir, "PATH="+h.nodePath("bin")+":"+os.Getenv("PATH"))
}

// nodeArgs are the arguments of the harness and the specs.
func (h *host) nodeArgs() []string {
	return []string{"--bearer-token=" + nodeToken, "--prepull-images=false",
		"--container-runtime-endpoint=" + h.endpoint, "--system-spec-file=" + h.nodePath("system.yaml")}
}

// startHarness starts a part of upstream's harness. The specs wait until the node is ready.
func (h *host) startHarness(ctx context.Context, mode string) error {
	log, err := os.Create(h.nodePath(mode[2:] + ".log"))
	if err != nil {
		return err
	}
	cmd := exec.Command(h.nodePath("bin/"+nodeTests), //nolint:gosec // ours
		append([]string{mode, "--report-dir=" + h.dir}, h.nodeArgs()...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.dir, h.nodeEnv(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the run is no interrupt of it
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	h.closers = append(h.closers, func(context.Context) error {
		kill := time.AfterFunc(harnessTimeout, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		_ = cmd.Wait() // upstream's harness exits with an error after a signal
		return log.Close()
	})
	return ctx.Err()
}
