package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/describe"
)

// description prints a pod in the manner of kubectl describe.
type description struct {
	w    *screen
	now  time.Time
	node string
}

// line prints a line. Its values stay on it: only the format begins another.
func (d *description) line(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = plain.Quote(strings.TrimRight(s, "\n"), false)
		}
	}
	fmt.Fprintf(d.w, format+"\n", args...)
}

func (d *description) field(name, value string) {
	if value != "" {
		d.line("%-14s%s", name+":", value)
	}
}

func (d *description) pod(r *query.PodReport) {
	p := r.Pod
	s := summarize(p)
	d.field("Name", podName(p))
	d.field("Namespace", p.Namespace)
	d.field("UID", string(p.UID))
	d.field("Node", d.node)
	d.field("Source", r.Source)
	d.field("Manifest", r.Digest)
	d.field("Stage", r.Stage)
	d.field("Status", s.status)
	d.field("Phase", string(p.Status.Phase))
	d.field("Reason", p.Status.Reason)
	d.field("Message", p.Status.Message)
	if r.PreemptedFor != nil {
		d.field("Preempted by", r.PreemptedFor.String())
	}
	d.field("QoS class", string(p.Status.QOSClass))
	var ips []string
	for _, ip := range p.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	d.field("IPs", strings.Join(ips, ", "))
	if !p.CreationTimestamp.IsZero() {
		d.field("Age", age(d.now, p.CreationTimestamp))
	}
	if p.DeletionTimestamp != nil {
		d.field("Deleted", age(d.now, *p.DeletionTimestamp)+" ago")
	}
	switch {
	case r.Orphan:
		d.field("Orphan", "no source has this pod; it is being deleted")
	case r.Stage == pod.ReasonOrphan:
		d.field("Orphan", "no source has this pod yet; it keeps running, and a source that has it adopts it as it is")
	}
	if q := r.Quarantine; q != nil {
		d.line("\nQuarantined: it failed on record #%d (%s): %s\nIts containers keep running, but the agent takes no more "+
			"decisions for it. A change of its manifest, a restart of the agent, and `journalet lift %s` try again; with "+
			"--skip the last one leaves out that record.", q.Cause, q.Code, q.Message, p.UID)
	}
	d.waits(r)
	d.notEnforced(p)
	d.containers("Init containers", p.Spec.InitContainers, p.Status.InitContainerStatuses)
	d.containers("Containers", p.Spec.Containers, p.Status.ContainerStatuses)
	var ephemeral []corev1.Container
	for _, c := range p.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(c.EphemeralContainerCommon))
	}
	d.containers("Ephemeral containers", ephemeral, p.Status.EphemeralContainerStatuses)
	d.conditions(p)
	d.decisions(r)
	d.events(r)
}

// stageAdmitting is the PodReport.Stage of a pod that the node has not admitted yet.
const stageAdmitting = "Admitting"

// waits prints what a pod waits for and since when, so that no pod is stuck without a visible reason.
func (d *description) waits(r *query.PodReport) {
	if len(r.Waits) == 0 {
		return
	}
	head := "Termination waits for:"
	if r.Stage == stageAdmitting || r.Stage == pod.ReasonOrphan {
		head = "Waits for:"
	}
	d.line("\n%s", head)
	rows := [][]string{{"AGE", "CAUSE", "WHAT"}}
	for _, w := range r.Waits {
		cause := ""
		if w.Cause > 0 {
			cause = fmt.Sprintf("#%d", w.Cause)
		}
		rows = append(rows, []string{duration.HumanDuration(d.now.Sub(w.Since)), cause, w.What})
	}
	(&table{w: d.w, indent: "  "}).print(rows...)
}

// notEnforced prints the limits that the author may rely on and that nothing enforces.
func (d *description) notEnforced(p *corev1.Pod) {
	for i, n := range pod.NotEnforced(p) {
		if i == 0 {
			d.line("\nNot enforced:")
		}
		d.line("  %s %s", n.Field, n.Message)
	}
}

func (d *description) containers(title string, specs []corev1.Container, statuses []corev1.ContainerStatus) {
	if len(specs) == 0 {
		return
	}
	d.line("\n%s:", title)
	for i := range specs {
		c := &specs[i]
		d.line("  %s:", c.Name)
		field := func(name, value string) {
			if value != "" {
				d.line("    %-12s%s", name+":", value)
			}
		}
		field("Image", c.Image)
		at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 {
			continue
		}
		s := &statuses[at]
		field("ID", s.ContainerID)
		field("State", d.state(&s.State))
		field("Last state", d.state(&s.LastTerminationState))
		field("Ready", fmt.Sprint(s.Ready))
		field("Restarts", fmt.Sprint(s.RestartCount))
	}
}

func (d *description) state(s *corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running for " + age(d.now, s.Running.StartedAt)
	case s.Waiting != nil:
		if s.Waiting.Message != "" {
			return fmt.Sprintf("waiting, %s: %s", s.Waiting.Reason, s.Waiting.Message)
		}
		return "waiting, " + s.Waiting.Reason
	case s.Terminated != nil:
		t := s.Terminated
		text := fmt.Sprintf("terminated %s ago, %s, exit code %d", age(d.now, t.FinishedAt), terminationReason(t), t.ExitCode)
		if !t.StartedAt.IsZero() && !t.FinishedAt.IsZero() {
			text += ", ran " + duration.HumanDuration(t.FinishedAt.Sub(t.StartedAt.Time))
		}
		if t.Message != "" {
			text += ": " + strings.TrimSpace(t.Message)
		}
		return text
	}
	return ""
}

func (d *description) conditions(p *corev1.Pod) {
	if len(p.Status.Conditions) == 0 {
		return
	}
	d.line("\nConditions:")
	rows := [][]string{{"TYPE", "STATUS", "AGE", "REASON", "MESSAGE"}}
	for _, c := range p.Status.Conditions {
		rows = append(rows, []string{string(c.Type), string(c.Status), age(d.now, c.LastTransitionTime), c.Reason, c.Message})
	}
	(&table{w: d.w, indent: "  "}).print(rows...)
}

func (d *description) decisions(r *query.PodReport) {
	if len(r.Decisions) == 0 {
		return
	}
	d.line("\nLatest decisions (all: journalet observe --no-follow --pod %s):", r.Pod.UID)
	for _, l := range r.Decisions {
		d.line("  %s  #%d  %s%s", clock(d.now, l.Time), l.Seq, l.Text, causeSuffix(l))
	}
}

func (d *description) events(r *query.PodReport) {
	if len(r.Events) == 0 {
		return
	}
	d.line("\nEvents:")
	rows := [][]string{{"SEQ", "TYPE", "REASON", "AGE", "MESSAGE"}}
	for _, e := range r.Events {
		rows = append(rows, []string{fmt.Sprintf("#%d", e.Seq), e.Type, e.Reason,
			duration.HumanDuration(d.now.Sub(e.Time)), e.Message})
	}
	(&table{w: d.w, indent: "  "}).print(rows...)
}

// causeSuffix formats the cause of a decision, as far as it is known.
func causeSuffix(l describe.Line) string {
	switch {
	case l.Cause == 0:
		return ""
	case l.CauseText == "":
		return fmt.Sprintf("  because #%d", l.Cause)
	}
	return fmt.Sprintf("  because #%d %s", l.Cause, l.CauseText)
}

// clock formats an event's local time of day, with the date unless it is today.
func clock(now time.Time, text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	t = t.In(now.Location())
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2006-01-02 15:04:05.000")
	}
	return t.Format("15:04:05.000")
}
