package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// labScript starts, kills and restarts the containerd of the lab LAB_NAME. The path is that from a test's package.
	labScript = "../../deploy/lab/lab.sh"
	// labTimeout bounds one command of a lab that has its tools.
	labTimeout = 2 * time.Minute
)

// Lab runs a command of the lab that LAB_NAME names, and returns its output.
func Lab(command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), labTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, labScript, command) //nolint:gosec // a command that a test names
	var errs strings.Builder
	cmd.Stderr = &errs
	// containerd inherits the script's pipes and keeps them open: do not wait for their end.
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", labScript, command, err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// UpLab starts the lab that LAB_NAME names and returns its CRI endpoint. It is for tests that harm their runtime.
func UpLab() (string, error) {
	if os.Getenv("LAB_NAME") == "" {
		return "", errors.New("LAB_NAME is empty: name a lab whose containerd may be harmed, or run the make target of " +
			"these tests")
	}
	if _, err := Lab("up"); err != nil {
		return "", err
	}
	return Lab("endpoint")
}
