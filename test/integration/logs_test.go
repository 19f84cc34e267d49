//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/strict"
)

// logging configures rotation as often as may be.
const logging = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
containerLogMonitorInterval: 3s
`

// startedRotating runs an agent that rotates early.
func startedRotating(t *testing.T, manifests map[string]string) *agent {
	t.Helper()
	a := newAgent(t)
	config := filepath.Join(a.Dir, "config.yaml")
	must.OK(t, os.WriteFile(config, []byte(logging), 0o600))
	a.Flags = append(a.Flags, "--config", config)
	for name, text := range manifests {
		a.Put(name, text)
	}
	a.start()
	return a
}

// logs starts `journalet logs` and returns what it prints. The end of the test ends it.
func (a *agent) logs(args ...string) (io.Reader, *exec.Cmd) {
	a.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, a.Program, append([]string{"logs", "--root-dir", a.Root}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must.OK(a.T, err)
	must.OK(a.T, cmd.Start())
	a.T.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if a.T.Failed() {
			a.T.Logf("%v: %s", cmd.Args, errs.String())
		}
	})
	return out, cmd
}

// A container writes 500 MB in lines of 4 kB as fast as it can, its log is rotated every three seconds, and who follows
// it gets each line once and in order.
func TestRotationLosesNoLineOfABusyContainer(t *testing.T) {
	t.Parallel()
	const lines = 128_000
	script := fmt.Sprintf(`sleep 1; awk 'BEGIN { p = sprintf("%%03990d", 0)
		while (n < %d) { for (i = 0; i < 4000; i++) print ++n, p; fflush(); system("sleep 0.1") } }'; %s`, lines, idle)
	a := startedRotating(t, onePod("busy", script))
	a.pod("busy", "ready", ready)
	out, _ := a.logs("busy", "-f")
	scan, next := bufio.NewScanner(out), 1
	begun := time.Now()
	for next <= lines && scan.Scan() {
		text, _, _ := strings.Cut(scan.Text(), " ")
		if n, err := strconv.Atoi(text); err != nil || n != next {
			t.Fatalf("line %d is %.40q", next, scan.Text())
		}
		next++
	}
	if next <= lines {
		t.Fatalf("the log ended at line %d: %v", next, scan.Err())
	}
	took := time.Since(begun)
	a.quiet()
	rotated := a.journal.count(named("log_rotated"))
	t.Logf("%d lines in %s, %d MB/s, %d rotations", lines, took, int(lines*4/1000/took.Seconds()), rotated)
	if rotated < 2 {
		t.Errorf("%d rotations, want some", rotated)
	}
	// At most three files, one of them compressed, and nothing else.
	node.Eventually(t, settle, "an old log to be compressed", func() error {
		files, err := filepath.Glob(filepath.Join(a.PodLogs, "*", "main", "*"))
		if err != nil {
			return err
		}
		packed := slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, ".gz") })
		if len(files) > 3 || !packed {
			return fmt.Errorf("%v", files)
		}
		return nil
	})
	a.Verified()
}

// On a full disk older logs cannot be compressed. That is reported once, the logs stay as they are, and the archives
// are written when there is room again.
func TestFullDiskOfLogsIsReportedUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	must.OK(t, os.MkdirAll(a.PodLogs, 0o755))
	must.OK(t, unix.Mount("none", a.PodLogs, "tmpfs", 0, "size=16m"))
	a.AtTheEnd(func() { _ = unix.Unmount(a.PodLogs, unix.MNT_DETACH) })
	config := filepath.Join(a.Dir, "config.yaml")
	must.OK(t, os.WriteFile(config, []byte(logging), 0o600))
	a.Flags = append(a.Flags, "--config", config)
	a.put(node.Pod("fills", testImage(), "write() { head -c 40000 /dev/zero | tr '\\0' '\\n'; }; write; "+
		"while [ ! -f /v/go ]; do sleep 0.1; done; write; "+idle, scratch))
	a.start()
	p := a.pod("fills", "ready", ready)
	recorded := func(least int, words ...string) {
		t.Helper()
		node.Eventually(t, settle, fmt.Sprintf("%d records with %q", least, words), func() error {
			if n := a.journal.count(named("log_rotated", words...)); n < least {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
	}
	recorded(1)
	// There is room for little more than what is rotated: the container's second lines fill the disk.
	filler := filepath.Join(a.PodLogs, "filler")
	f, err := os.Create(filler)
	must.OK(t, err)
	var room unix.Statfs_t
	must.OK(t, unix.Statfs(a.PodLogs, &room))
	must.OK(t, unix.Fallocate(int(f.Fd()), 0, 0, int64(room.Bavail)*room.Bsize-1200<<10))
	must.OK(t, f.Close())
	setup.Runtime.Exec(t, node.BareID(container(p, "main").ContainerID), "touch", "/v/go")
	recorded(1, "no space left on device")
	must.OK(t, os.Remove(filler))
	node.Eventually(t, settle, "the archive", func() error {
		files, err := filepath.Glob(filepath.Join(a.PodLogs, "*_fills-*", "main", "*.gz"))
		if err != nil {
			return err
		}
		if len(files) != 1 {
			return fmt.Errorf("%v", files)
		}
		return nil
	})
	a.quiet()
	if n := a.journal.count(named("log_rotated", "no space left on device")); n != 1 {
		t.Errorf("the failure is recorded %d times, want once", n)
	}
}

// A line is printed within 50 ms from when the container was given it: through its pipe, containerd, the log, the
// socket and the command.
func TestFollowedLineIsPrintedAtOnce(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	dir := filepath.Join(a.Dir, "pipe")
	must.OK(t, os.Mkdir(dir, 0o755))
	fifo := filepath.Join(dir, "fifo")
	must.OK(t, unix.Mkfifo(fifo, 0o600))
	p := node.Pod("echo", testImage(), "exec cat <> /v/fifo", scratch)
	p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}
	a.put(p)
	a.start()
	a.pod("echo", "ready", ready)
	out, _ := a.logs("echo", "-f")
	to, err := os.OpenFile(fifo, os.O_RDWR, 0)
	must.OK(t, err)
	defer to.Close()
	scan := bufio.NewScanner(out)
	var took []time.Duration
	for i := range 50 {
		begun := time.Now()
		_, err := fmt.Fprintln(to, i)
		must.OK(t, err)
		if !scan.Scan() || scan.Text() != strconv.Itoa(i) {
			t.Fatalf("line %d is %q", i, scan.Text())
		}
		if took = append(took, time.Since(begun)); i == 0 {
			took = nil // until then the request was under way
		}
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("longest %s", took[len(took)-1])
	strict.Within(t, "half of the lines", median, 50*time.Millisecond)
}

func TestLogsOfContainersAreAsKubectlPrintsThem(t *testing.T) {
	t.Parallel()
	p := node.Pod("crash", testImage(), "if [ -f /v/x ]; then echo second; "+idle+"; fi; touch /v/x; "+
		"echo first; sleep 0.2; echo error >&2; exit 1", scratch)
	p.Spec.InitContainers = []corev1.Container{node.Shell("init", testImage(), "echo prepared")}
	waits := node.Pod("waits", "no.such.registry.invalid/image:1", "true")
	a := started(t, map[string]string{"a.yaml": node.Manifest(p), "b.yaml": node.Manifest(waits)})
	a.pod("crash", "ready again", func(p *corev1.Pod) bool {
		return ready(p) && container(p, "main").RestartCount == 1
	})
	a.pod("waits", "waiting for its image", func(p *corev1.Pod) bool {
		return container(p, "main").State.Waiting.Reason == "ImagePullBackOff"
	})
	// A container may run before its first line is in its log.
	node.Eventually(t, settle, "the second instance to write", func() error {
		if out, errs, _ := a.CLI("logs", "crash", "-c", "main"); out == "" {
			return fmt.Errorf("nothing is printed: %q", errs)
		}
		return nil
	})
	full := "crash-" + a.Node
	for _, c := range []struct {
		args, out, errs string
		code            int
	}{
		{"crash", "second\n", `Defaulted container "main" out of: main, init (init)`, 0},
		{"crash -c main --previous", "first\nerror\n", "", 0},
		{"crash -c main -p --tail 1", "error\n", "", 0},
		{"crash init", "prepared\n", "", 0},
		{"crash --all-containers --prefix",
			"[pod/" + full + "/init] prepared\n[pod/" + full + "/main] second\n", "", 0},
		{"crash -c main --limit-bytes 3", "sec", "", 0},
		{"crash -c main --since-time 2100-01-01T00:00:00Z", "", "", 0},
		{"crash -c init --previous", "", `previous terminated container "init" in pod "` + full + `" not found`, 1},
		{"crash -c none", "", `container "none" not found`, 6},
		{"none", "", `pod "none" not found`, 6},
		{"waits", "", "is waiting to start: trying and failing to pull image", 1},
		{"crash -c main --tail -2", "", "--tail must be greater than or equal to -1", 2},
		{"crash -c main --since 1s --since-time 2100-01-01T00:00:00Z", "", "at most one of", 2},
	} {
		args := append([]string{"logs"}, strings.Fields(c.args)...)
		out, errs, code := a.CLI(args...)
		if out != c.out || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" || code != c.code {
			t.Errorf("%s: %q, %q, %d; want %q, %q, %d", c.args, out, errs, code, c.out, c.errs, c.code)
		}
	}
	if out, _, _ := a.CLI("logs", "crash", "-c", "main", "--timestamps"); !strings.HasSuffix(out, "Z second\n") &&
		!strings.Contains(out, "+") {
		t.Errorf("with timestamps: %q", out)
	}
	a.Verified()
}

// Who follows a container's log gets its last words, and then the command ends.
func TestFollowingEndsWithTheContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := started(t, onePod("ends", "echo started; until [ -e /h/go ]; do sleep 0.1; done; echo done", host(dir),
		node.Restarts(corev1.RestartPolicyNever)))
	a.pod("ends", "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	out, cmd := a.logs("ends", "-f")
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n') // it follows
	must.OK(t, err)
	writeFile(t, filepath.Join(dir, "go"), "")
	text, err := io.ReadAll(lines)
	if err = errors.Join(err, cmd.Wait()); err != nil || first+string(text) != "started\ndone\n" {
		t.Errorf("printed %q, %v", first+string(text), err)
	}
}
