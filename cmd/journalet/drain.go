package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history"
)

// drainPaint is how often the picture of a drain is painted again on a terminal: its grace periods run.
const drainPaint = 500 * time.Millisecond

// maxEventBytes bounds an event that is decoded.
const maxEventBytes = 1 << 20

type drainOptions struct {
	query.DrainRequest
	grace, timeout time.Duration
	wait           bool
}

func (a *app) drainCommand() *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "End the node's pods, lowest priority first, and admit no others",
		Long: "End the node's pods, those of the lowest priority first, each within its grace period and with its preStop\n" +
			"hooks. From now on no pod is admitted: new ones wait. This lasts until `journalet uncordon`, over restarts of\n" +
			"the agent and reboots. Then what has ended runs again.\n\n" +
			"System-critical pods (priority 2000000000 and above) stay, and new ones are admitted, unless --critical is\n" +
			"given. The command can be repeated: another --grace-period also holds for pods that end already.\n\n" +
			"On a terminal it shows what it waits for, else a line for each change. If it is interrupted, the drain\n" +
			"continues. It fails (1) if pods are left after --timeout.",
		Example: "  journalet drain --dry-run\n" +
			"  journalet drain\n" +
			"  journalet drain --grace-period 10s --timeout 5m\n" +
			"  journalet drain --critical && reboot",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Client = client()
			if cmd.Flags().Changed("grace-period") {
				if o.grace < 0 {
					return usagef("--grace-period is %s: want 0 or more", o.grace)
				}
				seconds := int64((o.grace + time.Second - 1) / time.Second)
				o.GraceSeconds = &seconds
			}
			return a.drain(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.DurationVar(&o.grace, "grace-period", 0,
		"longest grace period of a pod, in whole seconds; not given: each pod's own")
	f.BoolVar(&o.Critical, "critical", false, "end system-critical pods, too, after all others")
	f.DurationVar(&o.timeout, "timeout", 0, "how long to wait for the end of the pods; 0: until they have ended")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would end, and end nothing")
	f.BoolVar(&o.wait, "wait", true, "wait until the pods have ended")
	return cmd
}

func (a *app) drain(ctx context.Context, o drainOptions) error {
	var s *query.DrainStatus
	if err := a.withControl(ctx, func(c *query.Client) (err error) {
		s, err = c.BeginDrain(ctx, o.DrainRequest)
		return err
	}); err != nil {
		return err
	}
	if o.DryRun || !o.wait {
		return a.printPlan(s, o.DryRun)
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	p := &drainPicture{a: a, live: a.out.terminal(), status: s, names: map[string]query.DrainPod{}}
	p.learn(s)
	if p.live {
		a.above = p.above
	}
	err := a.withClient(ctx, true, func(c *query.Client) error { return p.follow(ctx, c, s.After) })
	switch {
	case errors.Is(err, errDone):
		return p.summary()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the node is not drained within %s: %s; the drain continues", o.timeout, p.left())
	case errors.Is(err, context.Canceled):
		// Below the picture, which stays.
		fmt.Fprintln(a.err, "journalet: the drain continues; `journalet uncordon` ends it")
	}
	return err
}

// printPlan prints the pods of a drain in the order of their ends.
func (a *app) printPlan(s *query.DrainStatus, dryRun bool) error {
	ends := map[string]string{
		query.DrainWaits: "ends", query.DrainEnds: "is ending", query.DrainEnded: "has ended by the drain",
		query.DrainStays: "stays: system-critical",
	}
	rows := [][]string{{"POD", "PRIORITY", "GRACE", ""}}
	for _, p := range s.Pods {
		rows = append(rows, []string{
			p.Namespace + "/" + p.Name, fmt.Sprint(p.Priority), (time.Duration(p.GraceSeconds) * time.Second).String(),
			ends[p.State],
		})
	}
	(&table{w: a.out}).print(rows...)
	text := "drain requested"
	if dryRun {
		text = "dry run: nothing was requested"
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// columns aligns rows, two spaces apart.
func columns(rows [][]string) []string {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	lines := make([]string, len(rows))
	for n, r := range rows {
		for i, cell := range r {
			lines[n] += cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2)
		}
		lines[n] = strings.TrimRight(lines[n], " ")
	}
	return lines
}

// drainPicture follows a drain: as a picture on a terminal, else as lines.
type drainPicture struct {
	a      *app
	live   bool
	status *query.DrainStatus
	names  map[string]query.DrainPod
	ended  int // pods that have ended since
	mu     sync.Mutex
	lines  int // painted; under mu
}

// above prints a line above the picture, which is painted again with the next change.
func (p *drainPicture) above(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.a.out.back(p.lines)
	p.lines = 0
	write()
}

// learn keeps the pods' names, also of pods that will be gone.
func (p *drainPicture) learn(s *query.DrainStatus) {
	p.status = s
	for _, d := range s.Pods {
		p.names[d.UID] = d
	}
}

// follow follows the events behind a record until the drain is complete.
func (p *drainPicture) follow(ctx context.Context, c *query.Client, after uint64) error {
	changed, failed := make(chan messages.Flat), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		failed <- c.Watch(ctx, query.WatchRequest{
			From: after + 1, Follow: true, Notice: p.a.notice, Filter: history.Filter{Events: []string{
				"drain_progressed", "pod_eviction_decided", "pod_terminated", "uncordon_requested", "shutdown_signaled",
			}},
		}, func(f messages.Flat) error {
			select {
			case changed <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	tick := time.NewTicker(drainPaint)
	defer tick.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case f := <-changed:
			if err := p.event(ctx, c, f); err != nil {
				return err
			}
		case <-tick.C:
		}
		if p.live {
			p.read(ctx, c)
			p.paint()
		}
	}
}

// read reads the drain as it stands. One that does not respond, since the agent restarts, is read again later.
func (p *drainPicture) read(ctx context.Context, c *query.Client) {
	if s, err := c.Drain(ctx); err == nil {
		p.learn(s)
	}
}

// event handles one event: it prints a line where there is no picture, and ends the wait.
func (p *drainPicture) event(ctx context.Context, c *query.Client, f messages.Flat) error {
	var e struct {
		UID        string   `json:"uid"`
		WaitingFor []string `json:"waiting_for"`
		Shutdown   bool     `json:"shutdown"`
		Active     bool     `json:"active"`
	}
	if err := bounded.JSON(f.Data, maxEventBytes, &e); err != nil {
		return fmt.Errorf("decode an event; is the agent of another version? %w", err)
	}
	line := ""
	switch f.Event {
	case "pod_eviction_decided":
		p.read(ctx, c)
		d := p.names[e.UID]
		line = fmt.Sprintf("ending pod %s, priority %d, grace period %s", p.name(e.UID), d.Priority,
			time.Duration(d.GraceSeconds)*time.Second)
	case "pod_terminated":
		p.ended++
		line = "pod " + p.name(e.UID) + " has ended"
	case "uncordon_requested":
		return errors.New("the drain was ended by an uncordon")
	case "shutdown_signaled":
		if e.Active {
			line = "the machine shuts down: the drain waits for that"
		}
	case "drain_progressed":
		if !e.Shutdown && len(e.WaitingFor) == 0 {
			p.read(ctx, c)
			return errDone
		}
	}
	if line == "" || p.live {
		return nil
	}
	_, err := fmt.Fprintln(p.a.out, line)
	return err
}

func (p *drainPicture) name(uid string) string {
	if d := p.names[uid]; d.Name != "" {
		return d.Namespace + "/" + d.Name
	}
	return uid
}

// paint replaces the picture: what ends now, with its grace period and what it waits for, then what waits.
func (p *drainPicture) paint() {
	p.mu.Lock()
	defer p.mu.Unlock()
	width, height := p.a.out.size()
	p.a.out.back(p.lines)
	p.lines = 0
	show := func(code, text string) {
		if r := []rune(text); len(r) >= width {
			text = string(r[:max(0, width-2)]) + "…"
		}
		if p.lines < height-2 {
			_ = p.a.out.paint(p.a.out.colour(), painted{code, text})
			p.lines++
		}
	}
	waits, stays := 0, 0
	rows := [][]string{{"ENDING", "PRIORITY", "GRACE LEFT", "WAITS FOR"}}
	for _, d := range p.status.Pods {
		switch d.State {
		case query.DrainEnds:
			rows = append(rows, []string{
				d.Namespace + "/" + d.Name, fmt.Sprint(d.Priority), p.graceLeft(d), waitsOf(d),
			})
		case query.DrainWaits:
			waits++
		case query.DrainStays:
			stays++
		}
	}
	for i, line := range columns(rows) {
		code := ""
		if i == 0 {
			code = dim
		}
		show(code, line)
	}
	show(dim, fmt.Sprintf("%d ended, %d wait for those, %d system-critical stay", p.ended, waits, stays))
}

// graceLeft returns what is left of the grace period of a pod that ends.
func (p *drainPicture) graceLeft(d query.DrainPod) string {
	if d.Until.IsZero() {
		return (time.Duration(d.GraceSeconds) * time.Second).String()
	}
	left := d.Until.Sub(p.a.now()).Round(time.Second)
	if left <= 0 {
		return "over"
	}
	return left.String()
}

// waitsOf returns why a pod has not ended yet.
func waitsOf(d query.DrainPod) string {
	var all []string
	for _, w := range d.Waits {
		all = append(all, w.What)
	}
	if len(all) == 0 {
		return "an inspection that shows its end"
	}
	return strings.Join(all, "; ")
}

// left returns what a drain still waits for.
func (p *drainPicture) left() string {
	var names []string
	more := 0
	for _, d := range p.status.Pods {
		switch d.State {
		case query.DrainEnds:
			names = append(names, d.Namespace+"/"+d.Name)
		case query.DrainWaits:
			more++
		}
	}
	text := "it waits for pod " + strings.Join(names, ", ")
	if len(names) == 0 {
		text = "no pod ends yet"
	}
	if more > 0 {
		text += fmt.Sprintf(", and %d end after that", more)
	}
	return text
}

// summary prints the end of a drain.
func (p *drainPicture) summary() error {
	if p.live {
		p.a.out.back(p.lines)
	}
	ended, stays := 0, 0
	for _, d := range p.status.Pods {
		switch d.State {
		case query.DrainEnded:
			ended++
		case query.DrainStays:
			stays++
		}
	}
	text := fmt.Sprintf("node drained: %d pods ended", ended)
	if stays > 0 {
		text += fmt.Sprintf(", %d system-critical stay", stays)
	}
	_, err := fmt.Fprintln(p.a.out, text+"; `journalet uncordon` runs them again")
	return err
}

func (a *app) uncordonCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "uncordon",
		Short: "End a drain: what it ended runs again, and pods are admitted",
		Long: "End a drain. The pods that it ended are admitted again, those of higher priority first, and so are pods\n" +
			"that have waited meanwhile. It fails (1) if the node is not drained.",
		Example: "  journalet uncordon",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s *query.DrainStatus
			if err := a.withControl(cmd.Context(), func(c *query.Client) (err error) {
				s, err = c.Uncordon(cmd.Context(), query.UncordonRequest{Client: client()})
				return err
			}); err != nil {
				return err
			}
			n := 0
			for _, p := range s.Pods {
				if p.State == query.DrainEnded || p.State == query.DrainEnds {
					n++
				}
			}
			_, err := fmt.Fprintf(a.out, "node uncordoned: %d pods are admitted again\n", n)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}
