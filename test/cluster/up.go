package cluster

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/journalet/journalet/test/must"
)

// Up starts a control plane for a test and stops it at the test's end. The Dir of the options is ignored. The files of
// a failed test are kept.
func Up(t testing.TB, o Options) *Cluster {
	t.Helper()
	// Not t.TempDir: it is removed when the test has failed, too.
	dir, err := os.MkdirTemp("", "jl-cluster-")
	must.OK(t, err)
	o.Dir = dir
	c, err := Start(t.Context(), o)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the cluster's files are kept in %s", dir)
			return
		}
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// MustClient returns a client that may do everything.
func (c *Cluster) MustClient(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	client, err := c.Client()
	must.OK(t, err)
	return client
}

// Command returns a kubectl that may do everything, with arguments.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Program(Kubectl), args...) //nolint:gosec // a test's
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Admin())
	return cmd
}
