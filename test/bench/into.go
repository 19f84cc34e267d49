package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// followLines is how many lines are timed, one each followPause.
	followLines = 50
	followPause = 100 * time.Millisecond
	// bigLog is the size of the log that is read whole; its lines are as long as the log lines of many services.
	bigLog     = 1 << 30
	bigLogLine = 200
	// execSessions is how many sessions are open at once.
	execSessions = 100
	topRuns      = 5
)

// into measures the commands that reach into pods: -into names the agent's command line. The pods of the burst run.
func (c *client) into(a *agent) {
	if *intoPods == "" {
		return
	}
	kv := map[string]any{}
	for _, measure := range []func(*agent, map[string]any) error{c.top, c.follow, c.wholeLog, c.execs} {
		if err := measure(a, kv); err != nil {
			log.Print(err) // its rows of the table stay empty
		}
	}
	out("into", kv)
}

// command returns a command of the agent's command line.
func command(args ...string) *exec.Cmd {
	words := append(strings.Fields(*intoPods), args...)
	return exec.Command(words[0], words[1:]...) //nolint:gosec // the caller of the bench gives the command
}

// top times `top pods`, with the CPU that the agent spends on it.
func (c *client) top(a *agent, kv map[string]any) error {
	var wall, own []float64
	cpu := a.cpu()
	for range topRuns {
		cmd := command("top", "pods")
		began := time.Now()
		text, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("top: %w: %.300s", err, text)
		}
		wall = append(wall, 1000*time.Since(began).Seconds())
		own = append(own, 1000*(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds())
		kv["top_lines"] = bytes.Count(text, []byte("\n"))
	}
	kv["top_ms"], kv["top_command_cpu_ms"] = r3(median(wall)), r3(median(own))
	kv["top_agent_cpu_ms"] = r3(1000 * (a.cpu() - cpu) / topRuns)
	return nil
}

// startPod starts a pod whose main container runs a script, and returns its name on the node.
func (c *client) startPod(name, script string) (string, error) {
	was, _ := json.Marshal(mainCommand) // strings
	now, _ := json.Marshal([]string{"sh", "-c", script})
	putFile(name, bytes.Replace(manifest(name, 0), was, now, 1))
	for end := time.Now().Add(*limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for p := range c.running(name) {
			return p, nil
		}
	}
	return "", errors.New(name + " does not run")
}

// follow compares the time that the runtime has written before each line with the time of the line's receipt.
func (c *client) follow(_ *agent, kv map[string]any) error {
	script := fmt.Sprintf("trap 'exit 0' TERM; while :; do echo line; sleep %g; done", followPause.Seconds())
	pod, err := c.startPod("pb-follow", script)
	if err != nil {
		return err
	}
	defer remove("pb-follow")
	cmd := command("logs", "-f", "--timestamps", "--tail", "0", pod)
	lines, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("logs -f: %w", err)
	}
	// A command that prints nothing is no result.
	stop := time.AfterFunc(*limit, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	var behind []float64
	for s := bufio.NewScanner(lines); len(behind) < followLines && s.Scan(); {
		stamp, _, _ := strings.Cut(s.Text(), " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			behind = append(behind, 1000*time.Since(at).Seconds())
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // killed
	q := quant(behind)
	kv["follow_p50_ms"], kv["follow_max_ms"], kv["follow_lines"] = q["p50"], q["max"], len(behind)
	return nil
}

// wholeLog reads a log of a GiB, which is written here in the place of the container's own.
func (c *client) wholeLog(_ *agent, kv map[string]any) error {
	pod, err := c.startPod("pb-log", mainCommand[2])
	if err != nil {
		return err
	}
	defer remove("pb-log")
	st, err := call(c.rt.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: c.running("pb-log")[pod].GetId()})
	if err != nil {
		return err
	}
	path := st.GetStatus().GetLogPath()
	if filepath.Base(path) != "0.log" {
		return fmt.Errorf("the log of %s is %q", pod, path)
	}
	if err := writeLog(path); err != nil {
		return err
	}
	var rates []float64
	for range 3 {
		cmd := command("logs", pod)
		from, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return fmt.Errorf("logs: %w", err)
		}
		began := time.Now()
		n, err := io.Copy(io.Discard, from)
		took := time.Since(began)
		if err := errors.Join(err, cmd.Wait()); err != nil || n < bigLog/2 {
			return fmt.Errorf("logs: %w, %d bytes", err, n)
		}
		// The bytes of the file that were read: the lines lose their heads on the way.
		rates = append(rates, bigLog/1e6/took.Seconds())
	}
	kv["log_mb_s"] = r3(median(rates))
	return nil
}

// writeLog fills a container's log in the runtime's format.
func writeLog(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	head := time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " stdout F "
	line := head + strings.Repeat("x", bigLogLine-len(head)-1) + "\n"
	for range bigLog / bigLogLine {
		if _, err := w.WriteString(line); err != nil {
			break // Flush returns it
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// execs opens many sessions at once, and times a line there and back in all of them.
func (c *client) execs(a *agent, kv map[string]any) error {
	var pods []string
	for p := range c.running("pb-0") { // the pods of the burst
		pods = append(pods, p)
	}
	if len(pods) == 0 {
		return errors.New("exec: no pod runs")
	}
	var all []*session
	defer func() {
		for _, s := range all {
			s.end()
		}
	}()
	cpu, began, refused := a.cpu(), time.Now(), 0
	for i := range execSessions {
		s, err := openSession(pods[i%len(pods)])
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	for i, s := range all {
		if s.echo() == nil {
			continue
		}
		// containerd gives a shim 2 s to report a container's state before an exec ("failed to load task"), which many
		// sessions at once exceed on a busy machine.
		refused++
		again, err := openSession(pods[i%len(pods)])
		if err != nil {
			return err
		}
		s.end()
		all[i] = again
		if err := again.echo(); err != nil {
			return err
		}
	}
	kv["exec_refused"] = refused
	kv["exec_sessions"], kv["exec_open_s"] = len(all), r3(time.Since(began).Seconds())
	kv["exec_agent_cpu_s"], kv["exec_rss_mib"] = r3(a.cpu()-cpu), r3(a.rss())
	var trips []float64
	for _, s := range all {
		sent := time.Now()
		if err := s.echo(); err != nil {
			return err
		}
		trips = append(trips, 1000*time.Since(sent).Seconds())
	}
	q := quant(trips)
	kv["exec_trip_p50_ms"], kv["exec_trip_max_ms"] = q["p50"], q["max"]
	return nil
}

// session is a session of `journalet exec` that sends back what it gets.
type session struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openSession(pod string) (*session, error) {
	cmd := command("exec", "-i", pod, "--", "cat")
	cmd.Stderr = os.Stderr // why a session failed
	in, err := cmd.StdinPipe()
	text, err2 := cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	return &session{cmd, in, bufio.NewReader(text)}, nil
}

// echo sends a line and reads it.
func (s *session) echo() error {
	if _, err := io.WriteString(s.in, "there\n"); err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	if line, err := s.out.ReadString('\n'); err != nil || line != "there\n" {
		return fmt.Errorf("exec: %q, %w", line, err)
	}
	return nil
}

// end closes the session: the end of its input ends it.
func (s *session) end() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}
