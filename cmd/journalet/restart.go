package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
)

// errDone ends a watch whose outcome is known.
var errDone = errors.New("done")

// client returns who runs this command, for the journal.
func client() string {
	uid := os.Getuid()
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("user %s (uid %d), process %d (journalet)", name, uid, os.Getpid())
}

type restartOptions struct {
	query.RestartRequest
	wait    bool
	timeout time.Duration
}

func (a *app) restartCommand() *cobra.Command {
	var o restartOptions
	cmd := &cobra.Command{
		Use:   "restart POD[/CONTAINER]",
		Short: "Restart a pod's containers, whatever their restart policy",
		Long: "Restart a container, or all containers of a pod in their sandbox, init containers first. What runs is\n" +
			"stopped with its preStop hook within the pod's grace period. A container that waits for its back-off, or has\n" +
			"ended for good, starts again, too. It counts as a restart, and adds no back-off. A pod that has ended is run\n" +
			"again from the beginning: its restart counts begin at 0.\n\n" +
			"POD is a name, namespace/name or UID. A second request adds nothing while the first is under way.\n" +
			"Without --wait the command ends when the request is recorded.\n\n" +
			"It fails (1) where a pod terminates, waits for its admission or was rejected, and if what it waits for does\n" +
			"not happen; 6 means that there is no such pod.",
		Example: "  journalet restart web\n" +
			"  journalet restart web/proxy --timeout 1m\n" +
			"  journalet restart kube-system/dns/cache --wait=false",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Client = client()
			return a.restart(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: a.completePods,
	}
	f := cmd.Flags()
	f.StringVarP(&o.Namespace, "namespace", "n", "", "the pod's namespace, if several pods have the name")
	f.StringVarP(&o.Container, "container", "c", "", "the container, instead of POD/CONTAINER")
	f.BoolVar(&o.wait, "wait", true, "wait until the containers run again")
	f.DurationVar(&o.timeout, "timeout", 0, "how long to wait; 0: until the containers run again")
	complete(cmd, "namespace", a.completeNamespaces)
	return cmd
}

// restart requests the restart of what name names, and waits for it.
func (a *app) restart(ctx context.Context, o restartOptions, name string) error {
	r, err := a.requestRestart(ctx, o.RestartRequest, name)
	if err != nil {
		return err
	}
	what := "pod " + r.Pod.Namespace + "/" + r.Pod.Name
	if r.Container != "" {
		what = "container " + r.Container + " of " + what
	}
	if !o.wait {
		_, err := fmt.Fprintf(a.out, "restart of %s requested\n", what)
		return err
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	waits := "the start of the new instances"
	err = a.withClient(ctx, true, func(c *query.Client) error {
		return c.Watch(ctx, query.WatchRequest{
			From: r.After + 1, Follow: true, Notice: a.notice, Filter: history.Filter{Pods: []string{r.Pod.UID}},
		}, func(f messages.Flat) error {
			if f.Event != "pod_observed" && f.Event != "pod_status_changed" {
				return nil
			}
			return restarted(ctx, c, r, &waits)
		})
	})
	switch {
	case errors.Is(err, errDone):
		_, err := fmt.Fprintf(a.out, "%s restarted\n", what)
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s has not restarted within %s: it waits for %s; the request stays", what, o.timeout, waits)
	}
	return err
}

// requestRestart requests the restart of POD, else of POD/CONTAINER: names do not show which one is meant.
func (a *app) requestRestart(ctx context.Context, q query.RestartRequest, name string) (*query.RestartResponse, error) {
	var r *query.RestartResponse
	err := a.withControl(ctx, func(c *query.Client) (err error) {
		q.Pod = name
		r, err = c.Restart(ctx, q)
		at := strings.LastIndexByte(name, '/')
		if !query.IsNotFound(err) || at <= 0 || q.Container != "" {
			return err
		}
		q.Pod, q.Container = name[:at], name[at+1:]
		var second error
		if r, second = c.Restart(ctx, q); query.IsNotFound(second) {
			return err
		}
		return second
	})
	return r, err
}

// restarted returns errDone once every container that was to restart has another instance that has started, and
// another error where that will not happen.
func restarted(ctx context.Context, c *query.Client, r *query.RestartResponse, waits *string) error {
	report, err := c.Pod(ctx, query.PodRequest{Pod: r.Pod.UID, Lines: -1})
	switch {
	case query.IsNotFound(err):
		return nil // between two incarnations
	case err != nil:
		return err
	}
	p := report.Pod
	if len(r.Instances) == 0 {
		// The incarnation before had ended, so this is the next one.
		if report.Stage == "Running" && p.Status.Phase == corev1.PodRunning {
			return errDone
		}
		*waits = "the next incarnation of the pod"
		return nil
	}
	if p.DeletionTimestamp != nil || report.Stage == "Terminating" {
		return fmt.Errorf("pod %s/%s ends meanwhile (%s)", p.Namespace, p.Name, p.Status.Reason)
	}
	var left []string
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		before, restarts := r.Instances[s.Name]
		began := s.State.Running != nil || s.State.Terminated != nil
		if !restarts || began && s.ContainerID != before && s.ContainerID != "" {
			continue
		}
		text := s.Name
		if w := s.State.Waiting; w != nil && w.Reason != "" {
			text += " (" + w.Reason + ")"
		}
		left = append(left, text)
	}
	if len(left) == 0 {
		return errDone
	}
	*waits = "a new instance of " + strings.Join(left, ", ")
	return nil
}
