package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
)

const (
	// replayGC is how much garbage may pile up, in percent of what is in use, before it is collected: a replay allocates
	// much and keeps little. replayMemory is where that ends, in bytes.
	replayGC     = 400
	replayMemory = 2 << 30
)

// replayOptions are the flags of replay.
type replayOptions struct {
	check, step bool
	to, diff    string
	actor, pod  string
	config      string
	allocatable string
}

func (a *app) replayCommand() *cobra.Command {
	o := replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Decide again on a recorded journal, or show the state of an actor at any record",
		Long: "Run the agent's deciders over a journal, without an agent: no container runtime, no network, no file of\n" +
			"the journal is touched. The journal may be that of a running agent, a copy, or a bundle.\n\n" +
			"  --check          every actor decides again on each record, and its decisions are compared with those\n" +
			"                   recorded. Exit code 3 if one differs. Run the binary of another version to see what it\n" +
			"                   would decide otherwise, before you install it.\n" +
			"  --to MOMENT      the state of an actor (--actor, --pod) after a record, or which actors there are\n" +
			"  --diff A B       what changed in the state of an actor between two moments\n" +
			"  --step [MOMENT]  a screen to go through the records, with states, changes and causes; ? explains its keys\n" +
			"  --with-config F  which decisions would differ under another KubeletConfiguration, from where on, and how;\n" +
			"                   exit code 3 if any would\n\n" +
			"A moment is the number of a record, a time such as 2026-01-02T15:04:05Z, or a duration before the journal's\n" +
			"end such as 10m.",
		Example: "  journalet replay --check\n" +
			"  journalet replay --check --journal bundle.journalet -o json\n" +
			"  journalet replay --to 1042 --pod web\n" +
			"  journalet replay --to 10m --actor node/0 -o yaml\n" +
			"  journalet replay --diff 1000 1042 --pod web\n" +
			"  journalet replay --step --pod web --journal bundle.journalet\n" +
			"  journalet replay --with-config kubelet.yaml\n" +
			"  journalet replay --with-allocatable cpu=2,memory=4Gi",
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.check, "check", false, "compare every recorded decision with what is decided now")
	f.StringVar(&o.to, "to", "", "show the state after this moment")
	f.StringVar(&o.diff, "diff", "", "show what changed from this moment to the one that follows")
	f.BoolVar(&o.step, "step", false, "go through the records on a screen, from the moment that follows or from the end")
	f.StringVar(&o.config, "with-config", "", "a KubeletConfiguration file: compare with what is decided under it")
	_ = cmd.MarkFlagFilename("with-config") // fails only for an unknown flag
	f.StringVar(&o.allocatable, "with-allocatable", "",
		"compare with what is decided if this is allocatable to pods: cpu=4,memory=8Gi,ephemeral-storage=20Gi")
	f.StringVar(&o.actor, "actor", "", "the actor as kind/id: node/0, runtime/0, image/0, source/file, pod/UID")
	f.StringVar(&o.pod, "pod", "", "the pod: its name, namespace/name or UID")
	complete(cmd, "pod", a.completePods)
	a.journalFlag(cmd)
	return a.outputFlag(cmd, formatText, formatJSON, formatYAML)
}

func (a *app) replay(ctx context.Context, o replayOptions, args []string) error {
	modes := 0
	for _, set := range []bool{o.check, o.step, o.to != "", o.diff != "", o.config+o.allocatable != ""} {
		if set {
			modes++
		}
	}
	switch {
	case modes != 1:
		return usagef("choose one of --check, --to, --diff, --step and --with-config or --with-allocatable")
	case o.diff != "" && len(args) != 1:
		return usagef("--diff takes two moments: --diff A B")
	case o.diff == "" && !o.step && len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	case o.actor != "" && o.pod != "":
		return usagef("--actor and --pod exclude each other")
	case o.diff != "" && o.actor == "" && o.pod == "":
		return usagef("--diff needs --actor or --pod")
	case o.to == "" && o.diff == "" && !o.step && o.actor+o.pod != "":
		return usagef("all actors are replayed: --actor and --pod go with --to, --diff and --step")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(replayGC))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(replayMemory))
	r, err := a.openJournal(ctx)
	if err != nil {
		return err
	}
	switch {
	case o.step:
		return a.replayStep(ctx, r, o, args)
	case o.check:
		return a.replayCheck(ctx, r)
	case o.to != "":
		return a.replayTo(ctx, r, o)
	case o.diff == "":
		return a.replayWhatIf(ctx, r, o)
	}
	return a.replayDiff(ctx, r, o, args[0])
}

func (a *app) replayCheck(ctx context.Context, r history.Reader) error {
	report, err := replay.Check(ctx, r, replay.Options{Progress: a.progress("replayed", "records")})
	a.endProgress()
	if err != nil {
		return err
	}
	if a.output != formatText {
		err = printValue(a.out, a.output, report)
	} else {
		a.printReplayed(report)
	}
	if err == nil && report.Diverged > 0 {
		err = errDiverged
	}
	return err
}

// shownDivergences bounds the divergences in text; -o json has more.
const shownDivergences = 20

func (a *app) printReplayed(r *replay.Report) {
	fmt.Fprintf(a.out, "Records %d to %d with %d events, actors: %d\n", r.First, r.Last, r.Events, r.Actors)
	if r.Base > 0 {
		fmt.Fprintf(a.out, "The fold began with the snapshots of record %d.\n", r.Base)
	}
	fmt.Fprintf(a.out, "Decided again: %d steps with %d decisions, and %d records without a decision.\n", r.Steps,
		r.Decisions, r.Quiet)
	if r.Absent > 0 {
		fmt.Fprintf(a.out, "Missing in between: %d records, which a bundle of some pods leaves out and damage loses.\n",
			r.Absent)
	}
	not := r.NotCompared
	for _, x := range []struct {
		n    uint64
		text string
	}{
		{not.Base, "steps that the snapshots contain"},
		{not.Quarantined, "steps of actors that could not be folded any further"},
		{not.Missing, fmt.Sprintf("steps of %d actors of which records or manifests are not there", not.MissingActors)},
		{not.Pending, "records after the last step of an actor, which it may not have handled"},
	} {
		if x.n > 0 {
			fmt.Fprintf(a.out, "Not compared: %d %s.\n", x.n, x.text)
		}
	}
	if r.Diverged == 0 {
		fmt.Fprintln(a.out, "Every decision is as recorded.")
		return
	}
	fmt.Fprintf(a.out, "Actors that decide otherwise: %d. The first difference of each:\n", r.Diverged)
	for i, d := range r.Divergences {
		if i == shownDivergences {
			fmt.Fprintf(a.out, "  and %d more; -o json lists up to %d\n", r.Diverged-i, replay.MaxDivergences)
			break
		}
		fmt.Fprintln(a.out, "  "+d.String())
	}
}

// replayActor returns the actor that --actor or --pod names, the zero Ref if neither is set.
func (a *app) replayActor(ctx context.Context, r history.Reader, o replayOptions) (messages.Ref, error) {
	if o.actor != "" {
		ref, err := messages.ParseRef(o.actor)
		if err != nil {
			err = usageError{err}
		}
		return ref, err
	}
	if o.pod == "" {
		return messages.Ref{}, nil
	}
	pods, err := replay.Incarnations(ctx, r, o.pod)
	if err != nil {
		if errors.Is(err, replay.ErrNoPod) {
			err = notFoundError{err}
		}
		return messages.Ref{}, err
	}
	if len(pods) == 1 {
		return messages.Pod(pods[0].UID), nil
	}
	lines := make([]string, len(pods))
	for i, p := range pods {
		lines[i] = fmt.Sprintf("\n  %s  %s/%s  records %d to %d, %s to %s", p.UID, p.Namespace, p.Name, p.First, p.Last,
			p.FirstTime.Format(time.RFC3339), p.LastTime.Format(time.RFC3339))
	}
	return messages.Ref{}, usagef("%d pods have had the name %q; choose one with --pod UID:%s", len(pods), o.pod,
		strings.Join(lines, ""))
}

// stateView is a state as it is printed.
type stateView struct {
	Actor       string          `json:"actor"`
	Seq         uint64          `json:"seq"`
	Time        time.Time       `json:"time,omitzero"`
	Handled     uint64          `json:"handled"`
	Pending     []uint64        `json:"pending,omitempty"`
	Quarantined string          `json:"quarantined,omitempty"`
	State       json.RawMessage `json:"state,omitempty"`
}

func (a *app) replayTo(ctx context.Context, r history.Reader, o replayOptions) error {
	seq, err := replayMoment(ctx, r, o.to)
	if err != nil {
		return err
	}
	ref, err := a.replayActor(ctx, r, o)
	if err != nil {
		return err
	}
	if ref == (messages.Ref{}) {
		return a.replayActors(ctx, r, seq)
	}
	st, err := stateAt(ctx, r, ref, seq)
	if err != nil {
		return err
	}
	v, err := viewOf(st)
	if err != nil {
		return err
	}
	if rec, err := r.Get(ctx, st.Seq); err == nil {
		v.Time = rec.GetTime().AsTime()
	}
	if a.output != formatText {
		return printValue(a.out, a.output, v)
	}
	fmt.Fprintf(a.out, "%s after record %d (%s), having handled record %d\n", v.Actor, v.Seq,
		v.Time.Format(time.RFC3339Nano), v.Handled)
	if len(v.Pending) > 0 {
		fmt.Fprintf(a.out, "not handled yet: records %s\n", strings.Trim(fmt.Sprint(v.Pending), "[]"))
	}
	if v.Quarantined != "" {
		fmt.Fprintf(a.out, "quarantined: %s\n", v.Quarantined)
	}
	b, err := yaml.JSONToYAML(v.State)
	if err == nil {
		_, err = fmt.Fprintf(a.out, "\n%s", b)
	}
	return err
}

// stateAt is replay.StateAt with the errors of this command.
func stateAt(ctx context.Context, r history.Reader, ref messages.Ref, seq uint64) (*replay.State, error) {
	st, err := replay.StateAt(ctx, r, ref, seq)
	if errors.Is(err, replay.ErrNoActor) {
		err = notFoundError{err}
	}
	return st, err
}

func viewOf(st *replay.State) (*stateView, error) {
	b, err := protojson.Marshal(st.Message)
	if err != nil {
		return nil, fmt.Errorf("print the state: %w", err)
	}
	v := &stateView{Actor: st.Actor.String(), Seq: st.Seq, Handled: st.Handled, Pending: st.Pending, State: b}
	if q := st.Quarantined; q != nil {
		v.Quarantined = fmt.Sprintf("since record %d: %s", q.GetCause(), q.GetMessage())
	}
	return v, nil
}

// replayActors lists the actors at a record.
func (a *app) replayActors(ctx context.Context, r history.Reader, seq uint64) error {
	all, err := replay.StatesAt(ctx, r, seq, replay.Options{Progress: a.progress("folded", "records")})
	a.endProgress()
	if err != nil {
		return err
	}
	views := make([]*stateView, 0, len(all))
	rows := [][]string{{"ACTOR", "POD", "STAGE", "HANDLED", "PENDING"}}
	for _, st := range all {
		v, err := viewOf(st)
		if err != nil {
			return err
		}
		views = append(views, v)
		name, stage := "", ""
		if p, ok := st.Message.(*journaletv1.PodState); ok {
			name = strings.TrimPrefix(p.GetPod().GetNamespace()+"/"+p.GetPod().GetName(), "/")
			stage = strings.ToLower(strings.TrimPrefix(p.GetStage().String(), "POD_STAGE_"))
		}
		if v.Quarantined != "" {
			stage = "quarantined"
		}
		rows = append(rows, []string{v.Actor, name, stage, fmt.Sprint(v.Handled), fmt.Sprint(len(v.Pending))})
	}
	if a.output != formatText {
		return printValue(a.out, a.output, views)
	}
	(&table{w: a.out}).print(rows...)
	return nil
}

// diffView is a difference as it is printed.
type diffView struct {
	Actor  string         `json:"actor"`
	From   uint64         `json:"from"`
	To     uint64         `json:"to"`
	Fields []replay.Field `json:"fields"`
}

func (a *app) replayDiff(ctx context.Context, r history.Reader, o replayOptions, to string) error {
	v := diffView{Fields: []replay.Field{}}
	var err error
	if v.From, err = replayMoment(ctx, r, o.diff); err != nil {
		return err
	}
	if v.To, err = replayMoment(ctx, r, to); err != nil {
		return err
	}
	ref, err := a.replayActor(ctx, r, o)
	if err != nil {
		return err
	}
	before, err := stateAt(ctx, r, ref, v.From)
	if err != nil {
		return err
	}
	after, err := stateAt(ctx, r, ref, v.To)
	if err != nil {
		return err
	}
	v.Actor, v.Fields = ref.String(), append(v.Fields, replay.Differences(before.Message, after.Message)...)
	if a.output != formatText {
		return printValue(a.out, a.output, v)
	}
	fmt.Fprintf(a.out, "%s from record %d to %d, fields that changed: %d\n", v.Actor, v.From, v.To, len(v.Fields))
	for _, f := range v.Fields {
		fmt.Fprintf(a.out, "  %s\n    from  %s\n    to    %s\n", f.Path, f.From, f.To)
	}
	return nil
}

// replayMoment returns the record of a moment: of a time the last record up to it, so that the state is the one then.
func replayMoment(ctx context.Context, r history.Reader, s string) (uint64, error) {
	first, last := r.Bounds()
	seq, err := history.ParseMoment(ctx, r, strings.TrimPrefix(s, "#"))
	switch {
	case errors.Is(err, history.ErrDamaged), errors.Is(err, history.ErrGone), errors.Is(err, history.ErrNoRecord):
		return 0, err
	case err != nil:
		return 0, usageError{err}
	}
	if seq == 0 {
		return 0, usagef("there is no record 0: the journal holds records %d to %d", first, last)
	}
	if strings.Trim(s, "#0123456789") != "" {
		return min(max(first, seq-1), last), nil
	}
	return seq, nil
}
