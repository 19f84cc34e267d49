//go:build chaos

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/node"
)

const (
	// settle bounds the way back of all pods on a machine that others use as well.
	settle = 3 * time.Minute
	// configuration keeps pods that were made to crash often from waiting for minutes.
	configuration = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"crashLoopBackOff: {maxContainerRestartPeriod: 2s}\n"
)

// agent is an agent whose pods are held to their manifests.
type agent struct{ *node.Agent }

// newAgent prepares an agent with more lines of configuration. At the end of a test that went well its pods must go
// through it.
func newAgent(t *testing.T, settings ...string) *agent {
	t.Helper()
	a := &agent{setup.NewAgent(t, settle, nil)}
	config := filepath.Join(a.Dir, "config.yaml")
	if err := os.WriteFile(config, []byte(configuration+strings.Join(settings, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Flags = []string{"--config", config}
	return a
}

// logged is the agent's log so far, over all its runs.
func (a *agent) logged() string {
	text, _ := a.Log.Text()
	return text
}
