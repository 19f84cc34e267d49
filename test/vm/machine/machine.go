//go:build vm

package machine

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/journalet/journalet/test/vm/wire"
)

const (
	// bootTimeout bounds a boot, from power on to the guest's first message: 12 s on two idle cores.
	bootTimeout = 4 * time.Minute
	// CommandTimeout bounds one command in the machine.
	CommandTimeout = 2 * time.Minute
	// usualMemoryMiB is the memory of a machine unless its options have another.
	usualMemoryMiB = 1536
	// serialLines of the console are shown with a failure of the machine.
	serialLines = 40
)

// Options are how a machine is started.
type Options struct {
	// Image is what Image returns. What the machine writes to its disk is lost with it.
	Image string
	// Files is a directory that the machine has at /mnt, read-only; its program guest runs the commands.
	Files string
	// Dir is an empty directory for what QEMU writes.
	Dir string
	// MemoryMiB is the machine's memory; 0: the usual.
	MemoryMiB int
	// Unit is the agent's systemd unit: failures show its log.
	Unit string
	// Tap is the name of a network interface of this machine, at most 15 bytes, which QEMU creates and removes: its other
	// end is the virtual machine's. Empty: no network.
	Tap string
}

// Machine is a running virtual machine. Run may be called by several goroutines.
type Machine struct {
	qemu    *exec.Cmd
	console string // path of its log
	unit    string // of the agent
	conn    net.Conn
	ended   chan struct{}
	printed bytes.Buffer // by QEMU; read it when ended is closed

	mu      sync.Mutex
	out     *json.Encoder
	next    int
	waiting map[int]chan wire.Result
}

// Image returns the directory of the machine's disk, kernel and initial RAM disk. The first time it builds them, which
// takes a minute. dir is the directory of image.sh.
func Image(dir string) (string, error) {
	build := exec.Command("./image.sh")
	build.Dir, build.Stderr = dir, os.Stderr
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("image.sh: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Programs builds programs of this repository, whose root is root, into a directory, by the paths of their packages.
func Programs(root, into string, packages map[string]string) error {
	for name, pkg := range packages {
		//nolint:gosec // a test's own arguments
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(into, name), root+pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // this machine's C library may be newer than the other's
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w: %s", pkg, err, out)
		}
	}
	return nil
}

// Boot starts a machine and returns when it runs commands.
func Boot(o Options) (m *Machine, err error) {
	payload := filepath.Join(o.Dir, "payload")
	//nolint:gosec // a test's own arguments
	mkfs := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", o.Files, payload, "384M")
	if out, err := mkfs.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mke2fs: %w: %s", err, out)
	}
	l, err := net.Listen("unix", filepath.Join(o.Dir, "port"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	m = &Machine{
		console: filepath.Join(o.Dir, "console"), unit: o.Unit, ended: make(chan struct{}), next: wire.Hello + 1,
		waiting: map[int]chan wire.Result{wire.Hello: make(chan wire.Result, 1)},
	}
	//nolint:gosec // a test's own arguments
	m.qemu = exec.Command("qemu-system-x86_64", o.arguments(m.console, payload)...)
	m.qemu.Env = append(os.Environ(), "TMPDIR="+o.Dir) // for what the machine writes
	m.qemu.Stderr, m.qemu.Stdout = &m.printed, &m.printed
	started := make(chan error, 1)
	go m.live(started, l)
	if err := <-started; err != nil {
		return nil, err
	}
	if m.conn, err = l.Accept(); err != nil {
		<-m.ended
		return nil, fmt.Errorf("QEMU does not start: %s", &m.printed)
	}
	m.out = json.NewEncoder(m.conn)
	go m.receive()
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	if _, err := m.await(ctx, wire.Hello, m.waiting[wire.Hello]); err != nil {
		m.Stop()
		return nil, fmt.Errorf("boot: %w", err)
	}
	return m, nil
}

// arguments returns the arguments of QEMU.
func (o *Options) arguments(console, payload string) []string {
	args := []string{
		// /dev/kvm may be there and hang: emulate.
		"-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-m", fmt.Sprint(cmp.Or(o.MemoryMiB, usualMemoryMiB)),
		// Whole: with svm=off,vmx=off every program of the initial RAM disk aborts.
		"-cpu", "max",
		"-display", "none", "-nodefaults", "-serial", "file:" + console,
		"-kernel", filepath.Join(o.Image, "vmlinuz"), "-initrd", filepath.Join(o.Image, "initrd"),
		// edd=off: the kernel would look for disks that the BIOS knows.
		// panic=0: a machine that panics stays, and its console shows why; a machine that reboots is booted again.
		// The kernel's check of its timer counts ticks, which come late on a processor that is busy.
		"-append", "root=/dev/vda rw console=ttyS0 edd=off no_timer_check apparmor=1 security=apparmor panic=0 " +
			"systemd.show_status=false",
		"-snapshot", "-drive", "file=" + filepath.Join(o.Image, "disk") + ",format=raw,if=virtio",
		"-drive", "file=" + payload + ",format=raw,if=virtio",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=port,path=" + filepath.Join(o.Dir, "port"),
		"-device", "virtserialport,chardev=port,name=" + wire.Port,
	}
	if o.Tap == "" {
		return args
	}
	return append(args, "-netdev", "tap,id=net,script=no,downscript=no,ifname="+o.Tap,
		// Nothing boots from the network: without its ROM, no package has to have one.
		"-device", "virtio-net-pci,netdev=net,romfile=")
}

// live runs QEMU to its end. It ends with this process, however that ends: the kernel kills it with the thread that has
// started it, so this thread does nothing else.
func (m *Machine) live(started chan<- error, l net.Listener) {
	runtime.LockOSThread()
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := m.qemu.Start()
	started <- err
	if err == nil {
		_ = m.qemu.Wait()
	}
	close(m.ended)
	_ = l.Close()
}

// receive hands each result to the caller that waits for it.
func (m *Machine) receive() {
	for in := json.NewDecoder(bufio.NewReader(m.conn)); ; {
		var r wire.Result
		if err := in.Decode(&r); err != nil {
			return // the machine has ended: see await
		}
		m.mu.Lock()
		to := m.waiting[r.ID]
		delete(m.waiting, r.ID)
		m.mu.Unlock()
		if to != nil {
			to <- r
		}
	}
}

// Run runs a script and returns its output. An exit status other than 0 is an error.
func (m *Machine) Run(script string) (string, error) { return m.RunWithin(CommandTimeout, script) }

// RunWithin is Run of a script that may take longer than most.
func (m *Machine) RunWithin(limit time.Duration, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result := make(chan wire.Result, 1)
	m.mu.Lock()
	id := m.next
	m.next++
	m.waiting[id] = result
	err := m.out.Encode(wire.Command{ID: id, Script: script})
	m.mu.Unlock()
	if err != nil {
		return "", err
	}
	return m.await(ctx, id, result)
}

func (m *Machine) await(ctx context.Context, id int, result <-chan wire.Result) (string, error) {
	select {
	case r := <-result:
		if r.Code != 0 {
			return r.Output, fmt.Errorf("exit status %d: %s", r.Code, strings.TrimSpace(r.Output))
		}
		return r.Output, nil
	case <-m.ended:
		return "", fmt.Errorf("the machine has ended: %s; the end of its console:\n%s", &m.printed, m.serial())
	case <-ctx.Done():
		m.mu.Lock()
		delete(m.waiting, id)
		m.mu.Unlock()
		return "", fmt.Errorf("%w; the end of the console:\n%s", ctx.Err(), m.serial())
	}
}

func (m *Machine) serial() string {
	text, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-serialLines):], "\n")
}

// Reboot boots the machine again, as logind does, and waits until it runs commands.
func (m *Machine) Reboot() error {
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout+CommandTimeout)
	defer cancel()
	hello := make(chan wire.Result, 1)
	m.mu.Lock()
	m.waiting[wire.Hello] = hello
	m.mu.Unlock()
	if _, err := m.Run("busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager " +
		"Reboot b false"); err != nil {
		return err
	}
	_, err := m.await(ctx, wire.Hello, hello)
	return err
}

// Stop turns the machine off, without a shutdown.
func (m *Machine) Stop() {
	_ = m.qemu.Process.Kill()
	<-m.ended
	if m.conn != nil {
		_ = m.conn.Close()
	}
}
