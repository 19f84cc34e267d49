package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/api/kubelet"
	"github.com/journalet/journalet/runtime/api/stream"
)

const (
	// logBufferBytes is how much of a log is copied at once.
	logBufferBytes = 256 << 10
	// logRetry is the pause between two requests for the log of a container that has not started yet (kubectl: 1 s).
	logRetry = time.Second
	// maxFollowed is how many logs are followed at once by default (kubectl: 5).
	maxFollowed = 5
)

// logFlags are the flags of `journalet logs`, kubectl's.
type logFlags struct {
	follow, previous, timestamps, all, prefix, raw, ignore bool

	tail, limit int64
	since       time.Duration
	sinceTime   string
	most        int
	wait        time.Duration
}

func (a *app) logsCommand() *cobra.Command {
	var l logFlags
	cmd := &cobra.Command{
		Use:   "logs POD [-c CONTAINER]",
		Short: "Print the logs of a container",
		Long: "Print the logs of a container: the file that is written and those that were rotated from it, oldest first.\n" +
			"With --follow: print lines as they are written, until the container ends.\n\n" +
			"On a terminal, characters that it acts on are printed as text, such as \\u001b, unless --raw is given. To a\n" +
			"file or a pipe all bytes are unchanged. What could not be read is reported on stderr.",
		Example: "  journalet logs web\n" +
			"  journalet logs web -c app -f --tail 20\n" +
			"  journalet logs web --previous\n" +
			"  journalet logs kube-system/dns --all-containers --prefix --since 1h",
		Args: usageArgs(cobra.RangeArgs(1, 2)),
	}
	t := a.targetFlags(cmd)
	t.containerFlag(cmd)
	f := cmd.Flags()
	f.BoolVarP(&l.follow, "follow", "f", false, "print lines as they are written, until the container ends")
	f.BoolVarP(&l.previous, "previous", "p", false, "print the logs of the container's previous instance")
	f.BoolVar(&l.timestamps, "timestamps", false, "print the time of each line before it")
	f.Int64Var(&l.tail, "tail", -1, "number of lines to print, the last ones; -1: all")
	f.Int64Var(&l.limit, "limit-bytes", 0, "maximum number of bytes to print; 0: no limit")
	f.DurationVar(&l.since, "since", 0, "print only lines newer than a duration like 5s, 2m, or 3h")
	f.StringVar(&l.sinceTime, "since-time", "", "print only lines after a time (RFC 3339)")
	f.BoolVar(&l.all, "all-containers", false, "print the logs of all containers of the pod")
	f.BoolVar(&l.prefix, "prefix", false, "print [pod/POD/CONTAINER] before each line")
	f.IntVar(&l.most, "max-log-requests", maxFollowed, "maximum number of logs to follow at once")
	f.BoolVar(&l.ignore, "ignore-errors", false, "print the errors of a container's log and continue with the next")
	f.DurationVar(&l.wait, "pod-running-timeout", 20*time.Second,
		"with --follow: how long to wait for a container that has not started")
	f.BoolVar(&l.raw, "raw", false, "pass control characters to the terminal")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			if cmd.Flags().Changed("container") {
				return usagef("only one of -c or an inline [CONTAINER] arg is allowed")
			}
			t.container = args[1]
		}
		query, err := l.query(t.container)
		if err != nil {
			return err
		}
		return a.logs(cmd.Context(), t, args[0], &l, query)
	}
	return cmd
}

// query returns the query of the requests. Its errors are kubectl's.
func (l *logFlags) query(container string) (url.Values, error) {
	switch {
	case l.sinceTime != "" && l.since != 0:
		return nil, usagef("at most one of --since-time and --since may be specified")
	case l.all && container != "":
		return nil, usagef("--all-containers=true should not be specified with container name %s", container)
	case l.limit < 0:
		return nil, usagef("--limit-bytes must be greater than 0")
	case l.since < 0:
		return nil, usagef("--since must be greater than 0")
	case l.tail < -1:
		return nil, usagef("--tail must be greater than or equal to -1")
	}
	q := url.Values{}
	for name, on := range map[string]bool{"follow": l.follow, "previous": l.previous, "timestamps": l.timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	if l.tail >= 0 {
		q.Set("tailLines", strconv.FormatInt(l.tail, 10))
	}
	if l.limit > 0 {
		q.Set("limitBytes", strconv.FormatInt(l.limit, 10))
	}
	if l.since > 0 {
		q.Set("sinceSeconds", strconv.FormatInt(max(1, int64(l.since.Round(time.Second)/time.Second)), 10))
	}
	if l.sinceTime != "" {
		at, err := time.Parse(time.RFC3339, l.sinceTime)
		if err != nil {
			return nil, usagef("--since-time: %q is no time such as 2026-11-21T10:00:00Z", l.sinceTime)
		}
		q.Set("sinceTime", at.Format(time.RFC3339Nano))
	}
	return q, nil
}

// logs prints the logs of a pod's containers, one after the other unless they are followed.
func (a *app) logs(ctx context.Context, t *target, name string, l *logFlags, query url.Values) error {
	c := t.client()
	defer c.Close()
	p, err := t.pod(ctx, c, name)
	if err != nil {
		return err
	}
	containers := []string{t.container}
	if l.all {
		containers = allContainers(p)
	} else if containers[0], err = containerOf(p, t.container, a.err); err != nil {
		return err
	}
	if l.follow && len(containers) > l.most {
		return fmt.Errorf("you are attempting to follow %d log streams, but maximum allowed concurrency is %d, "+
			"use --max-log-requests to increase the limit", len(containers), l.most)
	}
	out := &logOutput{to: a.logWriter(l.raw), lines: l.follow && len(containers) > 1}
	read := func(ctx context.Context, container string) error {
		w := out.outputOf(l.prefixOf(p, container))
		err := t.socketError(l.read(ctx, a.err, c, p, container, query, w))
		if err = errors.Join(err, w.end()); err != nil && l.ignore && ctx.Err() == nil {
			fmt.Fprintf(a.err, "error: %v\n", err)
			return nil
		}
		return err
	}
	if !out.lines {
		for _, container := range containers {
			if err := read(ctx, container); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, container := range containers {
		all.Go(func() {
			if err := read(ctx, container); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// allContainers returns the names of all containers, in starting order.
func allContainers(p *corev1.Pod) []string {
	var all []string
	for c := range containers.All(p) {
		all = append(all, c.Name)
	}
	return all
}

func (l *logFlags) prefixOf(p *corev1.Pod, container string) string {
	if !l.prefix {
		return ""
	}
	return fmt.Sprintf("[pod/%s/%s] ", p.Name, container)
}

// read prints the log of one container. A container that has not started is waited for if its log is followed.
func (l *logFlags) read(ctx context.Context, notes io.Writer, c *stream.Client, p *corev1.Pod, container string,
	query url.Values, w io.Writer) error {
	until, last := time.Now().Add(l.wait), ""
	for {
		err := readLog(ctx, notes, c, p, container, query, w)
		var status *stream.StatusError
		if !l.follow || !errors.As(err, &status) || status.Code != 400 || !time.Now().Before(until) {
			return err
		}
		if text := err.Error(); text != last {
			fmt.Fprintln(notes, text)
			last = text
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(logRetry):
		}
	}
}

// readLog sends one request.
func readLog(ctx context.Context, notes io.Writer, c *stream.Client, p *corev1.Pod, container string, query url.Values,
	w io.Writer) error {
	path := stream.Path("containerLogs", p.Namespace, p.Name, container)
	r, err := c.Get(ctx, path, query)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.CopyBuffer(w, onlyReader{r.Body}, make([]byte, logBufferBytes)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if left := r.Trailer.Get(kubelet.LogProblemsTrailer); left != "" {
		fmt.Fprintf(notes, "journalet: parts of the log were left out: %s\n", left)
	}
	return nil
}

// onlyReader hides other methods, so that the copy uses its buffer.
type onlyReader struct{ io.Reader }
