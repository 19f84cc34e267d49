//go:build cluster

package cluster

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// explains asks by the plugin of kubectl why a pod failed, while its object is there and when it is gone.
func (n *ours) explains(t *testing.T) {
	bin := t.TempDir()
	must.OK(t, os.Symlink(n.program, filepath.Join(bin, "kubectl-journalet")))
	must.OK(t, os.Symlink(n.Program(Kubectl), filepath.Join(bin, "kubectl")))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	n.kubectl(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "explained"}, "spec": {
		"nodeName": "ours", "restartPolicy": "Never", "containers": [
		{"name": "main", "image": "`+busybox+`", "command": ["sh", "-c", "echo out of paper >/dev/termination-log; exit 3"]}]}}`,
		"apply", "-f", "-")

	// A stream that began before the pod failed has its end.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	observe := n.Command(ctx, "journalet", "observe", "explained", "--since", "1h", "--event", "pod_status_changed")
	out, err := observe.StdoutPipe()
	must.OK(t, err)
	must.OK(t, observe.Start())
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		t.Log(lines.Text())
		if strings.Contains(lines.Text(), "Failed") {
			break
		}
	}
	stop()
	_ = observe.Wait() // it was killed

	file := filepath.Join(t.TempDir(), "explained.journalet")
	for _, c := range []struct{ args, want string }{
		{"why explained", "exited with code 3"},
		{"why explained --node ours --container main", "restart"},
		{"timeline explained", "container main exited 3"},
		{"observe explained --no-follow --event pod_observed", "container main exited 3 (Error)"},
		{"export explained -o " + file, "on node ours"},
		{"logs explained", ""},
	} {
		out, err := n.Command(t.Context(), append([]string{"journalet"}, strings.Fields(c.args)...)...).CombinedOutput()
		t.Logf("$ kubectl journalet %s\n%s", c.args, out)
		if c.want != "restart" && err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("kubectl journalet %s: %v, want %q", c.args, err, c.want)
		}
	}
	n.kubectl(t, "", "delete", "pod", "explained", "--timeout=60s")
	gone, err := n.Command(t.Context(), "journalet", "why", "explained").CombinedOutput()
	if err == nil || !strings.Contains(string(gone), "--node") {
		t.Errorf("%v: %s", err, gone)
	}
	after := n.kubectl(t, "", "journalet", "why", "explained", "--node", "ours")
	t.Logf("$ kubectl journalet why explained\n%s$ kubectl journalet why explained --node ours\n%s", gone, after)
	if !strings.Contains(after, "removed") {
		t.Error("it does not say that the pod was removed")
	}
}
