package probe

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/reap"
)

// execSlack is the runtime's time beyond a command's timeout to kill the command and respond. A call that takes longer
// counts as a timeout of the command.
const execSlack = 2 * time.Second

// exec runs a command in a container. As in the kubelet, exit code 0 is success, any other and a timeout are failures,
// and a call that fails otherwise has no result. A command that the container cannot run fails: the kubelet has no
// result for it, and so never finds the container unhealthy (kubernetes/kubernetes#106682). The message has the output,
// not the command, which may contain a secret.
func (d *Driver) exec(
	ctx context.Context, id string, c *corev1.Container, command []string, timeout time.Duration,
) outcome {
	if d.opts.Reaper == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+execSlack)
		defer cancel()
	}
	resp, err := d.opts.Reaper.Exec(ctx, d.rt, id, cri.ExpandStatic(command, c.Env), timeout, reap.Kind{Single: true})
	switch {
	case errors.Is(err, reap.ErrLeft):
		return outcome{failure, err.Error()}
	case status.Code(err) == codes.DeadlineExceeded:
		return outcome{failure, "command timed out after " + timeout.String()}
	case cri.IsCommandError(status.Convert(err).Message()):
		return outcome{failure, "the command cannot be run: " + status.Convert(err).Message()}
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
