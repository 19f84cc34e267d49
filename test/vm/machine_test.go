//go:build vm

package vm

import (
	"bufio"
	"bytes"
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
	// commandTimeout bounds one command in the machine.
	commandTimeout = 2 * time.Minute
	memoryMiB      = 1536
	// serialLines of the console are shown with a failure of the machine.
	serialLines = 40
)

// machine is a running virtual machine.
type machine struct {
	qemu    *exec.Cmd
	console string // path of its log
	conn    net.Conn
	ended   chan struct{}
	said    bytes.Buffer // by QEMU; read it when ended is closed

	mu      sync.Mutex
	out     *json.Encoder
	next    int
	waiting map[int]chan wire.Result
}

// boot starts a machine with the cached image and, as its second disk, the files of a directory. What the machine
// writes to its disks is lost with it.
func boot(image, files, dir string) (m *machine, err error) {
	payload := filepath.Join(dir, "payload")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", files, payload, "256M").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mke2fs: %w: %s", err, out)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "port"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	m = &machine{
		console: filepath.Join(dir, "console"), ended: make(chan struct{}), next: wire.Hello + 1,
		waiting: map[int]chan wire.Result{wire.Hello: make(chan wire.Result, 1)},
	}
	m.qemu = exec.Command("qemu-system-x86_64",
		// /dev/kvm may be there and hang: emulate.
		"-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-m", fmt.Sprint(memoryMiB),
		// Whole: with svm=off,vmx=off every program of the initial RAM disk aborts.
		"-cpu", "max",
		"-display", "none", "-nodefaults", "-serial", "file:"+m.console,
		"-kernel", filepath.Join(image, "vmlinuz"), "-initrd", filepath.Join(image, "initrd"),
		// edd=off: the kernel would look for disks that the BIOS knows.
		// panic=0: a machine that panics stays, and its console shows why; one that reboots is booted again.
		// The kernel's check of its timer counts ticks, which come late on a processor that is busy.
		"-append", "root=/dev/vda rw console=ttyS0 edd=off no_timer_check apparmor=1 security=apparmor panic=0 "+
			"systemd.show_status=false",
		"-snapshot", "-drive", "file="+filepath.Join(image, "disk")+",format=raw,if=virtio",
		"-drive", "file="+payload+",format=raw,if=virtio",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=port,path="+filepath.Join(dir, "port"),
		"-device", "virtserialport,chardev=port,name="+wire.Port)
	m.qemu.Env = append(os.Environ(), "TMPDIR="+dir) // for what the machine writes
	m.qemu.Stderr, m.qemu.Stdout = &m.said, &m.said
	started := make(chan error, 1)
	go m.live(started, l)
	if err := <-started; err != nil {
		return nil, err
	}
	if m.conn, err = l.Accept(); err != nil {
		<-m.ended
		return nil, fmt.Errorf("QEMU does not start: %s", &m.said)
	}
	m.out = json.NewEncoder(m.conn)
	go m.receive()
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	defer cancel()
	if _, err := m.await(ctx, wire.Hello, m.waiting[wire.Hello]); err != nil {
		m.stop()
		return nil, fmt.Errorf("boot: %w", err)
	}
	return m, nil
}

// live runs QEMU to its end. It ends with this process, however that ends: the kernel kills it with the thread that has
// started it, so this thread does nothing else.
func (m *machine) live(started chan<- error, l net.Listener) {
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
func (m *machine) receive() {
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

// run runs a script and returns its output. An exit status other than 0 is an error.
func (m *machine) run(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
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

func (m *machine) await(ctx context.Context, id int, result <-chan wire.Result) (string, error) {
	select {
	case r := <-result:
		if r.Code != 0 {
			return r.Output, fmt.Errorf("exit status %d: %s", r.Code, strings.TrimSpace(r.Output))
		}
		return r.Output, nil
	case <-m.ended:
		return "", fmt.Errorf("the machine has ended: %s; the end of its console:\n%s", &m.said, m.serial())
	case <-ctx.Done():
		m.mu.Lock()
		delete(m.waiting, id)
		m.mu.Unlock()
		return "", fmt.Errorf("%w; the end of the console:\n%s", ctx.Err(), m.serial())
	}
}

func (m *machine) serial() string {
	text, err := os.ReadFile(m.console)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-serialLines):], "\n")
}

// stop turns the machine off, without a shutdown.
func (m *machine) stop() {
	_ = m.qemu.Process.Kill()
	<-m.ended
	if m.conn != nil {
		_ = m.conn.Close()
	}
}
