package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/journalet/journalet/test/cluster"
)

func main() {
	if err := run(filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "units:", err)
		os.Exit(1)
	}
}

// run does what the program of this name does.
func run(name string, args []string) error {
	dir := os.Getenv("UNITS_DIR")
	switch {
	case dir == "":
		return errors.New("UNITS_DIR is not set")
	case name == "sudo" && len(args) > 0:
		return run(args[0], args[1:])
	case name == "systemd-run" && slices.Contains(args, "--version"):
		fmt.Println("systemd 255 (a stand-in)")
		return nil
	case name == "systemd-run":
		u, err := parse(args)
		if err != nil {
			return err
		}
		u.dir = dir
		return u.start()
	case name == "systemctl" && len(args) > 0:
		return control(dir, args[0], args[1:])
	}
	return fmt.Errorf("there is no %s %v", name, args)
}

// unit is a program that was started.
type unit struct {
	dir string

	Name    string // without .service
	Command []string
	Log     string // the file of its output
	Process cluster.Process
}

// parse reads the arguments of systemd-run.
func parse(args []string) (*unit, error) {
	u := &unit{}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flag := args[0]
		if args = args[1:]; flag == "-p" && len(args) > 0 {
			if log, is := strings.CutPrefix(args[0], "StandardError=append:"); is {
				u.Log = log
			}
			args = args[1:]
		} else if name, is := strings.CutPrefix(flag, "--unit="); is {
			u.Name = strings.TrimSuffix(name, ".service")
		}
	}
	if u.Command = args; u.Name == "" || len(args) == 0 {
		return nil, errors.New("systemd-run needs a unit and a command")
	}
	return u, nil
}

func (u *unit) path() string { return filepath.Join(u.dir, u.Name+".json") }

// start starts the program in a session of its own, and returns at once.
func (u *unit) start() error {
	log, err := os.OpenFile(u.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // for people
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(u.Command[0], u.Command[1:]...) //nolint:gosec // what it is for
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	u.Process = cluster.ProcessOf(cmd.Process.Pid)
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return os.WriteFile(u.path(), b, 0o600)
}

// stopTimeout is how long systemd waits for the end of a program before it kills it.
const stopTimeout = 90 * time.Second

// signal sends a signal to the program, if it runs.
func (u *unit) signal(s syscall.Signal) error {
	if !u.Process.Runs() {
		return nil
	}
	if err := syscall.Kill(u.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// stop ends the program.
func (u *unit) stop() error {
	if err := u.signal(syscall.SIGTERM); err != nil || u.gone() == nil {
		return err
	}
	return errors.Join(u.signal(syscall.SIGKILL), u.gone())
}

// gone waits until the program has ended.
func (u *unit) gone() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return cluster.Until(ctx, func() error {
		if u.Process.Runs() {
			return fmt.Errorf("%s, pid %d, does not end", u.Name, u.Process.Pid)
		}
		return nil
	})
}

// control does what a command of systemctl does.
func control(dir, command string, args []string) error {
	switch command {
	case "reset-failed", "mask", "daemon-reload":
		return nil
	case "list-units":
		return list(dir, slices.Contains(args, "--state=running"))
	}
	if len(args) != 1 {
		return fmt.Errorf("systemctl %s needs one unit", command)
	}
	u, err := load(filepath.Join(dir, strings.TrimSuffix(args[0], ".service")+".json"))
	if err != nil {
		return err
	}
	switch command {
	case "kill":
		return u.signal(syscall.SIGTERM)
	case "stop":
		return u.stop()
	case "start", "restart":
		if err := u.stop(); err != nil {
			return err
		}
		return u.start()
	}
	return fmt.Errorf("there is no systemctl %s", command)
}

func load(path string) (*unit, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u := &unit{dir: filepath.Dir(path)}
	return u, json.Unmarshal(b, u)
}

// list prints the units as systemctl does.
func list(dir string, running bool) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		u, err := load(path)
		if err != nil {
			return err
		}
		state := "exited"
		if u.Process.Runs() {
			state = "running"
		}
		if state == "running" || !running {
			fmt.Printf("  %s.service loaded active %s\n", u.Name, state)
		}
	}
	return nil
}
