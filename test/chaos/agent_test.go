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
	// settle bounds the recovery of all pods on a machine that runs other tests as well.
	settle = 3 * time.Minute
	// configuration bounds the back-off of pods that crash often.
	configuration = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"crashLoopBackOff: {maxContainerRestartPeriod: 2s}\n"
)

// agent is an agent whose pods are compared with their manifests.
type agent struct{ *node.Agent }

// newAgent prepares an agent with more lines of configuration.
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

// logged returns the agent's log of all its runs.
func (a *agent) logged() string {
	text, _ := a.Log.Text()
	return text
}
