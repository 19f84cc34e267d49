package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	directory = "/witness"
	// cancelled bounds the time that a runtime takes to kill a process that it started for a caller that is dead by
	// now. Such a run does not count.
	cancelled = 300 * time.Millisecond
	failed    = 3 // exit code of work that fails
)

// inputs are the files that every pod of the tests mounts.
var inputs = []string{
	"/settings/turn", "/credentials/password", "/var/run/secrets/kubernetes.io/serviceaccount/token",
	"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
}

// witness is the process of one container.
type witness struct {
	pod, uid string
	lock     *os.File // held as long as the process runs
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		return
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		code = 1
	}
	os.Exit(code)
}

// run does what the arguments name, and returns the exit code: "idle" and "ignore-sigterm" run until SIGTERM and
// SIGKILL, "succeed" and "fail" end at once, "retry" fails until it has run as often as the number behind it.
func run(args []string) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("name what to do: idle, ignore-sigterm, succeed, fail, retry N, probe")
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM)
	w := witness{pod: os.Getenv("POD"), uid: os.Getenv("POD_UID")}
	if err := w.own(); err != nil {
		return 0, err
	}
	select {
	case <-time.After(cancelled):
	case <-ends:
		return 128 + int(syscall.SIGTERM), nil
	}
	runs, err := w.begin()
	if err != nil {
		return 0, err
	}
	switch args[0] {
	case "idle":
		<-ends
		return 0, nil
	case "ignore-sigterm":
		for range ends {
		}
	case "fail":
		return failed, nil
	case "retry":
		if n, err := strconv.Atoi(args[len(args)-1]); err != nil || runs < n {
			return 1, err
		}
	}
	return 0, record(filepath.Join("pods", w.uid), "done")
}

// own takes the lock of the pod's name. If another process holds the lock, own records that: the holder runs, too.
func (w *witness) own() error {
	var err error
	w.lock, err = os.OpenFile(filepath.Join(directory, "locks", w.pod), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	lock := int(w.lock.Fd())
	if syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		holder, err := os.ReadFile(w.lock.Name())
		at := time.Now().Format(time.TimeOnly)
		if err := errors.Join(err, record("doubles", w.pod, w.uid, string(holder), at)); err != nil {
			return err
		}
		if err := syscall.Flock(lock, syscall.LOCK_EX); err != nil {
			return err
		}
	}
	if err := w.lock.Truncate(0); err != nil {
		return err
	}
	_, err = w.lock.WriteAt([]byte(w.uid), 0)
	return err
}

// begin records a run and what it lacks, and returns how often the pod's container has run.
func (w *witness) begin() (int, error) {
	var errs error
	for _, file := range inputs {
		if b, err := os.ReadFile(file); len(b) == 0 {
			errs = errors.Join(errs, record("missing", w.pod, w.uid, file, fmt.Sprint(err)))
		}
	}
	if os.Getenv("PASSWORD") == "" {
		errs = errors.Join(errs, record("missing", w.pod, w.uid, "PASSWORD"))
	}
	file := filepath.Join("pods", w.uid)
	errs = errors.Join(errs, record(file, "run", w.pod))
	b, err := os.ReadFile(filepath.Join(directory, file))
	fmt.Println("run", w.pod)
	return bytes.Count(b, []byte("run ")), errors.Join(errs, err)
}

// record appends a line of words to a file. Lines of several writers do not mix.
func record(file string, words ...string) error {
	f, err := os.OpenFile(filepath.Join(directory, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(words, " ") + "\n")
	return errors.Join(err, f.Close())
}
