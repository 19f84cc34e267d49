package probe

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
)

// execSlack is the runtime's time beyond a command's timeout to kill the command and respond. A call that takes longer
// counts as a timeout of the command.
const execSlack = 2 * time.Second

// exec runs a command in a container. As in the kubelet, exit code 0 is success, any other and a timeout are failures,
// and a call that fails otherwise has no result. The message has the output, not the command, which may contain a
// secret.
func (d *Driver) exec(
	ctx context.Context, id string, c *corev1.Container, command []string, timeout time.Duration,
) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout+execSlack)
	defer cancel()
	resp, err := d.rt.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: id, Cmd: cri.ExpandStatic(command, c.Env), Timeout: int64(timeout / time.Second),
	})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return outcome{failure, "command timed out after " + timeout.String()}
	case err != nil:
		return outcome{unknown, err.Error()}
	case resp.GetExitCode() != 0:
		return outcome{failure, output(resp)}
	}
	return outcome{success, ""}
}

// output returns a command's output, first stdout and then stderr.
func output(r *runtimeapi.ExecSyncResponse) string {
	out, errs := r.GetStdout(), r.GetStderr()
	out = out[:min(len(out), maxOutputBytes)]
	errs = errs[:min(len(errs), maxOutputBytes-len(out))]
	return string(out) + string(errs)
}
