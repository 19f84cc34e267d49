package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// begin is when every story begins.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Story is one story being told. Its zero value is not usable: call New.
type Story struct {
	g       *engine
	started *journaletv1.AgentStarted
	moments []*moment
	printed int // records already shown
	failed  error
	classes *manifest.RuntimeClasses
	looking *journaletv1.PodObserved
	// lost are the calls that were made without their outcome being heard of.
	lost map[string]bool
}

// New begins a story, with an agent that has an empty journal and has not started.
func New() *Story {
	s := &Story{lost: map[string]bool{}, g: &engine{
		world: newWorld(), now: begin, epoch: 1, armed: map[timerKey]armedTimer{}, probed: map[place]probing{},
		names: &names{
			manifests: map[string]*corev1.Pod{}, alias: map[string]string{},
			intents: map[string]*journaletv1.CallRequested{},
		},
	}}
	s.g.core = host.NewCore(host.AllDeciders, s.g.names.manifest, s.g.epoch)
	return s
}

var commands = map[string]func(*Story, *datadriven.TestData) (string, error){
	"start": (*Story).start, "restart-agent": (*Story).restart, "lose-journal": (*Story).loseJournal,
	"file": (*Story).file, "files": (*Story).files, "remove": (*Story).remove, "read": (*Story).readWhole,
	"classes": (*Story).setClasses,
	"health":  (*Story).health, "advance": (*Story).advance, "clock": (*Story).clock,
	"done": (*Story).done, "fail": (*Story).fail, "lose": (*Story).lose,
	"observe": (*Story).observe, "probe": (*Story).probe, "gates": (*Story).gates, "exit": (*Story).exit, "world": (*Story).disturb,
	"resources": (*Story).resources, "status": (*Story).status, "calls": (*Story).calls, "settle": (*Story).settle,
}

// Run carries out one command and gives what a story shows of it: the decisions that followed. What
// the checks behind a story find is shown too, as a line that begins with WRONG.
func (s *Story) Run(d *datadriven.TestData) string {
	run := commands[d.Cmd]
	if run == nil {
		return fmt.Sprintf("WRONG: no such command; there are %v", slices.Sorted(maps.Keys(commands)))
	}
	text, err := run(s, d)
	if s.printed > len(s.g.core.Records()) {
		s.printed = 0
	}
	out := text
	for _, rec := range s.g.core.Records()[s.printed:] {
		for _, line := range s.g.names.lines(rec) {
			if !d.HasArg("quiet") {
				out += line + "\n"
			}
		}
	}
	s.printed = len(s.g.core.Records())
	if err == nil && s.failed == nil {
		err = s.check()
	}
	if err != nil {
		if s.failed == nil {
			s.failed = fmt.Errorf("%s: %w", d.Pos, err)
			out += "WRONG: " + strings.TrimSpace(err.Error()) + "\n"
		}
	}
	if out == "" {
		return "ok\n"
	}
	return out
}

// check looks behind the story after a command.
func (s *Story) check() error {
	if err := s.g.core.Replay(); err != nil {
		return err
	}
	if len(s.g.world.sins) > 0 {
		return fmt.Errorf("%s", strings.Join(s.g.world.sins, "\n"))
	}
	if s.started == nil {
		return nil
	}
	if err := s.g.restorable(); err != nil {
		return err
	}
	if err := s.g.repeats(); err != nil {
		return err
	}
	return s.foresee()
}

// foresee finds out where each new moment leads to if nothing more goes wrong.
func (s *Story) foresee() error {
	for _, m := range s.moments {
		if m.end != "" {
			continue
		}
		g := m.g
		g.core = s.g.core
		f, err := g.fork(m.last, m.world, nil, false)
		if err != nil {
			return err
		}
		end, err := f.end()
		if err != nil {
			return fmt.Errorf("from here, a world without faults leads to: %w\n%s", err, tail(f, m.last))
		}
		m.end = cmp.Or(end, nothing)
	}
	return nil
}

// nothing is where a history comes to in which no pod is left.
const nothing = "no pods"

// End kills the agent at every record of the story and compares what it comes to.
func (s *Story) End() error {
	if s.failed != nil {
		return s.failed
	}
	return s.crashEverywhere()
}

// put records a fact of the story.
func (s *Story) put(about messages.Ref, e *journaletv1.Event) error {
	return s.moment(func() error { return s.g.put(about, e) })
}

// moment does something that records one fact, and remembers the world at it.
func (s *Story) moment(do func() error) error {
	m := &moment{first: len(s.g.core.Records()) + 1, world: s.g.world.clone()}
	if err := do(); err != nil {
		return err
	}
	m.last, m.g, m.started = len(s.g.core.Records()), *s.g, s.started
	m.g.armed, m.g.probed = maps.Clone(s.g.armed), maps.Clone(s.g.probed)
	if m.last >= m.first {
		s.moments = append(s.moments, m)
	}
	return nil
}

func (s *Story) start(d *datadriven.TestData) (string, error) {
	c := &journaletv1.AgentConfig{
		NodeName: arg(d, "node", "n1"), MaxPods: uint32(number(d, "maxpods", 110)),
		Allocatable: &journaletv1.NodeCapacity{
			MilliCpu: quantity(d, "cpu", "4").MilliValue(), MemoryBytes: quantity(d, "memory", "8Gi").Value(),
			EphemeralStorageBytes: quantity(d, "storage", "100Gi").Value(),
		},
		Sources:             sources(d, []string{messages.FileSource}),
		NodeLabels:          map[string]string{"kubernetes.io/hostname": arg(d, "node", "n1")},
		StartConcurrency:    uint32(number(d, "start-concurrency", 8)),
		StopConcurrency:     uint32(number(d, "stop-concurrency", 8)),
		PullConcurrency:     uint32(number(d, "pull-concurrency", 3)),
		MaxContainerBackOff: durationpb.New(duration(d, "max-back-off", 300*time.Second)),
	}
	for _, l := range values(d, "labels") {
		k, v, _ := strings.Cut(l, "=")
		c.NodeLabels[k] = v
	}
	s.started = &journaletv1.AgentStarted{Epoch: s.g.epoch, Version: "story", Config: c, BootId: "boot", AgentId: "agent"}
	if err := s.put(messages.Agent, startedEvent(s.started)); err != nil {
		return "", err
	}
	if d.HasArg("unready") {
		return "", nil
	}
	return "", s.put(messages.Runtime, healthEvent(true, true))
}

// sources are those that a command configures.
func sources(d *datadriven.TestData, otherwise []string) []string {
	if v := values(d, "sources"); v != nil {
		return v
	}
	return otherwise
}

func startedEvent(a *journaletv1.AgentStarted) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_AgentStarted{AgentStarted: proto.CloneOf(a)}}
}

func healthEvent(runtime, network bool) *journaletv1.Event {
	return &journaletv1.Event{Kind: &journaletv1.Event_RuntimeHealthChanged{
		RuntimeHealthChanged: &journaletv1.RuntimeHealthChanged{RuntimeReady: runtime, NetworkReady: network},
	}}
}

// restart ends the run without a word and begins the next one after a while, with other sources if some are named. Its core is folded anew
// from the journal; what the drivers knew is lost.
func (s *Story) restart(d *datadriven.TestData) (string, error) {
	s.g.pass(duration(d, "down", 0))
	s.started = proto.CloneOf(s.started)
	s.started.Config.Sources = sources(d, s.started.Config.Sources)
	return "", s.moment(func() error {
		f, err := s.g.fork(len(s.g.core.Records()), s.g.world, s.started, false)
		if err != nil {
			return err
		}
		s.g = f
		return nil
	})
}

// loseJournal begins with an empty journal beside the pods that run. No crash before it counts.
func (s *Story) loseJournal(*datadriven.TestData) (string, error) {
	s.g.epoch++
	s.g.core = host.NewCore(host.AllDeciders, s.g.names.manifest, s.g.epoch)
	s.g.armed, s.g.taken, s.printed, s.moments, s.started = map[timerKey]armedTimer{}, 0, 0, nil, nil
	clear(s.g.world.told)
	clear(s.g.world.owed)
	clear(s.g.probed)
	s.g.world.forgetStarts()
	return "", nil
}

func (s *Story) health(d *datadriven.TestData) (string, error) {
	return "", s.put(messages.Runtime, healthEvent(arg(d, "runtime", "ready") == "ready", arg(d, "network", "ready") == "ready"))
}

// advance lets time pass and fires the timers that become due, in order.
func (s *Story) advance(d *datadriven.TestData) (string, error) {
	by, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return "", err
	}
	return "", s.pass(by)
}

func (s *Story) pass(by time.Duration) error {
	end := s.g.uptime + by
	for fired := true; fired; {
		err := s.moment(func() (err error) { fired, err = s.g.fire(end); return err })
		if err != nil {
			return err
		}
	}
	s.g.pass(end - s.g.uptime)
	return nil
}

// clock sets the time of day, and the uptime goes on.
func (s *Story) clock(d *datadriven.TestData) (string, error) {
	s.g.now = s.g.now.Add(duration(d, "forward", 0) - duration(d, "back", 0))
	return "", nil
}

// settle lets a world without faults play on to the end, as part of the story.
func (s *Story) settle(d *datadriven.TestData) (string, error) {
	if err := s.g.converge(); err != nil {
		return "", err
	}
	s.printed = len(s.g.core.Records())
	return s.g.summary() + "\n", nil
}
