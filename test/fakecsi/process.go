package fakecsi

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/journalet/journalet/test/must"
)

// processVariable makes a test's binary a driver; it holds the Process as JSON.
const processVariable = "JOURNALET_TEST_CSI_DRIVER"

// checkAgain is the pause between two checks of whether a call is still held up.
const checkAgain = 10 * time.Millisecond

// Process is a driver that runs as a process of its own, which can be killed: the test's binary, whose TestMain, or
// main, calls RunIfDriver. All that it knows is on disk and in the mount table, so that the next process continues
// where one ended.
type Process struct {
	Name string
	// Root is the root directory of the agent that it registers with; Dir is the directory of the volumes.
	Root, Dir string
	// Stage has it stage volumes.
	Stage bool

	cmd *exec.Cmd
}

// RunIfDriver serves a driver and returns only when that fails, if this process is one. Otherwise it does nothing.
func RunIfDriver() error {
	text := os.Getenv(processVariable)
	if text == "" {
		return nil
	}
	var p Process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	return p.serve()
}

// serve serves the driver, and its registration as node-driver-registrar does.
func (p *Process) serve() error {
	d := &Driver{
		Dir: p.Dir, Capabilities: []csi.NodeServiceCapability_RPC_Type{Stats}, Usage: Measured,
		After: func(ctx context.Context, rpc string, _ any) error { return p.await(ctx, rpc) },
	}
	if p.Stage {
		d.Capabilities = append(d.Capabilities, Stage)
	}
	plugin, registry := p.Socket(), registrySocket(p.Root, p.Name)
	failed := make(chan error, 2)
	for path, register := range map[string]func(*grpc.Server){
		plugin: func(s *grpc.Server) { csi.RegisterNodeServer(s, d) },
		registry: func(s *grpc.Server) {
			registration.RegisterRegistrationServer(s, &registrar{name: p.Name, endpoint: plugin})
		},
	} {
		l, err := listen(path)
		if err != nil {
			return err
		}
		s := grpc.NewServer()
		register(s)
		go func() { failed <- s.Serve(l) }()
	}
	return <-failed
}

// Socket returns where the driver serves the CSI.
func (p *Process) Socket() string { return filepath.Join(p.Root, "plugins", p.Name, "csi.sock") }

// Volume returns the directory of a volume's contents; with ".img" it is the file that a block device shows.
func (p *Process) Volume(handle string) string { return filepath.Join(p.Dir, handle) }

// await waits while a call is held up.
func (p *Process) await(ctx context.Context, rpc string) error {
	for {
		if _, err := os.Lstat(p.hold(rpc)); err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(checkAgain):
		}
	}
}

func (p *Process) hold(rpc string) string { return filepath.Join(p.Dir, ".hold-"+rpc) }

// Hold has calls of an RPC take effect and not be answered, until Release.
func (p *Process) Hold(t testing.TB, rpc string) {
	t.Helper()
	must.OK(t, os.WriteFile(p.hold(rpc), nil, 0o600))
}

// Release has calls of an RPC be answered again.
func (p *Process) Release(t testing.TB, rpc string) {
	t.Helper()
	must.OK(t, os.Remove(p.hold(rpc)))
}

// Start runs the driver until Kill or the end of the test.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	must.OK(t, p.Run())
	t.Cleanup(p.Kill)
}

// Run runs the driver until Kill, or the end of this process.
func (p *Process) Run() error {
	if err := os.MkdirAll(p.Dir, 0o750); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(self) //nolint:gosec // this binary
	p.cmd.Env = append(os.Environ(), processVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

// Kill ends the driver with SIGKILL; nothing if it does not run. Its sockets stay, as after a crash.
func (p *Process) Kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}
