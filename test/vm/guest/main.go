package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/journalet/journalet/test/vm/wire"
)

func main() {
	if err := serve(filepath.Join("/dev/virtio-ports", wire.Port)); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func serve(path string) error {
	port, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer port.Close()
	var writing sync.Mutex
	out := json.NewEncoder(port)
	send := func(r wire.Result) error {
		writing.Lock()
		defer writing.Unlock()
		return out.Encode(r)
	}
	if err := send(wire.Result{ID: wire.Hello}); err != nil {
		return err
	}
	for in := json.NewDecoder(port); ; {
		var c wire.Command
		if err := in.Decode(&c); err != nil {
			return err
		}
		go func() {
			if err := send(run(c)); err != nil {
				fmt.Fprintln(os.Stderr, "guest:", err)
			}
		}()
	}
}

func run(c wire.Command) wire.Result {
	cmd := exec.Command("/bin/bash", "-c", c.Script) //nolint:gosec // what the test sends
	out, err := cmd.CombinedOutput()
	r := wire.Result{ID: c.ID, Output: string(out[max(0, len(out)-wire.MaxOutput):])}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Output, r.Code = err.Error(), -1
	}
	return r
}
