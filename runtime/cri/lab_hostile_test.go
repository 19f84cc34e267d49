//go:build integration

package cri_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/preflight"
)

// A container does what it can against its agent: it prints without end, grows the hosts file, and takes the name of a
// kubelet.
func TestLabContainerCannotHoldUpItsAgent(t *testing.T) {
	r := newLab(t, time.Millisecond)
	endpoint, main := os.Getenv("JOURNALET_TEST_CRI_ENDPOINT"), &r.pod.Spec.Containers[0]
	main.Command[2] = "printf kubelet > /proc/self/comm; " + main.Command[2]
	main.Args = []string{"--container-runtime-endpoint=" + endpoint}
	r.done("v", setUpVolumes(), false)
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	id := r.done("c0", startContainer(sandbox, 0), false).GetContainerId()
	exec := func(command string) *runtimeapi.ExecSyncResponse {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		resp, err := runtimeapi.NewRuntimeServiceClient(r.conn).ExecSync(ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: id, Cmd: []string{"sh", "-c", command}, Timeout: 120,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	out := exec("yes | head -c 12000000; echo wrong >&2; exit 3")
	if out.GetExitCode() != 3 || string(out.GetStderr()) != "wrong\n" ||
		string(out.GetStdout()) != strings.Repeat("y\n", cri.MaxExecOutputBytes/2) {
		t.Errorf("exit code %d, %d bytes, %q", out.GetExitCode(), len(out.GetStdout()), out.GetStderr())
	}
	if out = exec("truncate -s 1099511627776 /etc/hosts && grep kubelet /proc/1/comm"); out.GetExitCode() != 0 {
		t.Fatalf("exit code %d: %s", out.GetExitCode(), out.GetStderr())
	}
	if pid, found := preflight.KubeletRunning(endpoint); found {
		t.Errorf("process %d counts as a kubelet", pid)
	}
	id = r.done("c1", startContainer(sandbox, 1), false).GetContainerId()
	if out = exec("wc -c < /etc/hosts"); strings.TrimSpace(string(out.GetStdout())) == "1099511627776" {
		t.Error("the hosts file is the container's")
	}
}
