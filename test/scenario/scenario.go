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
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// begin is when every scenario begins.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Scenario is one scenario that is being played. Its zero value is not usable: call New.
type Scenario struct {
	g       *engine
	started *journaletv1.AgentStarted
	moments []*moment
	printed int // records already printed
	failed  error
	classes *manifest.Classes
	// inspecting is the observation of an inspection that has begun and not ended.
	inspecting *journaletv1.PodObserved
}

// New begins a scenario, with an agent that has an empty journal and has not started.
func New() *Scenario {
	s := &Scenario{g: &engine{
		world: newWorld(), now: begin, epoch: 1, armed: map[timerKey]armedTimer{}, probed: map[place]probing{},
		names: &names{
			manifests: map[string]*corev1.Pod{}, canonical: map[string][]byte{}, alias: map[string]string{},
			intents: map[string]*journaletv1.CallRequested{},
		},
	}}
	s.g.core = fold.NewCore(fold.AllDeciders, s.g.names.manifest, s.g.epoch)
	return s
}

var commands = map[string]func(*Scenario, *datadriven.TestData) (string, error){
	"start": (*Scenario).start, "restart-agent": (*Scenario).restart, "lose-journal": (*Scenario).loseJournal,
	"file": (*Scenario).file, "files": (*Scenario).files, "remove": (*Scenario).remove, "read": (*Scenario).readComplete,
	"classes": (*Scenario).setClasses,
	"health":  (*Scenario).health, "advance": (*Scenario).advance, "clock": (*Scenario).clock,
	"done": (*Scenario).done, "fail": (*Scenario).fail, "lose": (*Scenario).lose,
	"observe": (*Scenario).observe, "probe": (*Scenario).probe, "gates": (*Scenario).gates,
	"exit": (*Scenario).exit, "world": (*Scenario).disturb, "resources": (*Scenario).resources,
	"quarantine": (*Scenario).quarantine,
	"object":     (*Scenario).object, "objects": (*Scenario).objects, "volumes": (*Scenario).volumes,
	"lost": (*Scenario).lost, "directory": (*Scenario).directory, "storage": (*Scenario).storage,
	"restart-pod": (*Scenario).restartPod, "drain": (*Scenario).drain, "uncordon": (*Scenario).uncordon,
	"shutdown": (*Scenario).shutdown, "pressure": (*Scenario).pressure, "oom": (*Scenario).oom,
	"plugin":  (*Scenario).plugin,
	"api-pod": (*Scenario).apiPod, "api-gone": (*Scenario).apiGone, "api-phase": (*Scenario).apiPhase,
	"api-delete": (*Scenario).apiDelete, "node": (*Scenario).node,
	"images": (*Scenario).images, "full": (*Scenario).full, "pull": (*Scenario).operatorPull,
	"remove-image": (*Scenario).operatorRemoval, "keep-image": (*Scenario).keepImage,
	"status": (*Scenario).status, "calls": (*Scenario).calls, "settle": (*Scenario).settle,
}

// Run carries out one command and returns the decisions that followed, as text. If a check fails, the text has a line
// that begins with WRONG.
func (s *Scenario) Run(d *datadriven.TestData) string {
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

// check runs the checks after a command.
func (s *Scenario) check() error {
	if err := s.g.core.Replay(); err != nil {
		return err
	}
	if len(s.g.world.violations) > 0 {
		return fmt.Errorf("%s", strings.Join(s.g.world.violations, "\n"))
	}
	if s.started == nil {
		return nil
	}
	if err := s.g.restorable(); err != nil {
		return err
	}
	if err := s.g.repeatObservations(); err != nil {
		return err
	}
	return s.predict()
}

// predict works out the final state of each new moment.
func (s *Scenario) predict() error {
	for _, m := range s.moments {
		if m.finalState != "" {
			continue
		}
		g := m.g
		g.core = s.g.core
		f, err := g.fork(m.last, m.world, nil, false)
		if err != nil {
			return err
		}
		end, err := f.finalState()
		if err != nil {
			return fmt.Errorf("from here, a world without faults ends in: %w\n%s", err, tail(f, m.last))
		}
		m.finalState = cmp.Or(end, noPods)
	}
	return nil
}

// noPods is the final state without any pod.
const noPods = "no pods"

// End kills the agent at every record of the scenario and compares the final states.
func (s *Scenario) End() error {
	if s.failed != nil {
		return s.failed
	}
	return s.crashEverywhere()
}

// put records a fact of the scenario.
func (s *Scenario) put(about messages.Ref, e *journaletv1.Event) error {
	return s.moment(func() error { return s.g.put(about, e) })
}

// moment calls do, which records one fact, and keeps the world as it was before.
func (s *Scenario) moment(do func() error) error {
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

func (s *Scenario) start(d *datadriven.TestData) (string, error) {
	c := &journaletv1.AgentConfig{
		NodeName: arg(d, "node", "n1"), MaxPods: uint32(number(d, "maxpods", 110)),
		Allocatable: &journaletv1.NodeCapacity{
			MilliCpu: quantity(d, "cpu", "4").MilliValue(), MemoryBytes: quantity(d, "memory", "8Gi").Value(),
			EphemeralStorageBytes: quantity(d, "storage", "100Gi").Value(),
		},
		Sources:  sources(d, []string{messages.FileSource}),
		AppArmor: d.HasArg("apparmor"),
		// Without it pods with different service accounts have pulls of their own.
		PullsWithoutServiceAccount: d.HasArg("pulls-without-account"),
		// As of an agent of an earlier version.
		PullsForPods: !d.HasArg("pulls-without-pod"), TrustsFirstInspection: true, KeepsForWaitingPods: true,
		NodeLabels:          map[string]string{"kubernetes.io/hostname": arg(d, "node", "n1")},
		StartConcurrency:    uint32(number(d, "start-concurrency", 8)),
		StopConcurrency:     uint32(number(d, "stop-concurrency", 8)),
		PullConcurrency:     uint32(number(d, "pull-concurrency", 3)),
		MaxContainerBackOff: durationpb.New(duration(d, "max-back-off", 300*time.Second)),
		UserNamespaces: &journaletv1.UserNamespaceRange{
			First: 65536, Pods: uint32(number(d, "user-namespaces", 200)), IdsPerPod: 65536,
		},
	}
	c.AllowedUnsafeSysctls, c.Kernel = values(d, "sysctls"), kernel(d)
	c.CpuQuota = cpuQuota(d)
	c.Managers = managers(d)
	c.ShutdownGroups = shutdownGroups(d)
	c.Eviction = nodeEviction
	c.ImageGarbageCollection = imageGC(d)
	for _, l := range values(d, "labels") {
		k, v, _ := strings.Cut(l, "=")
		c.NodeLabels[k] = v
	}
	if d.HasArg("pod-cidr") {
		c.RuntimeConfig = &journaletv1.RuntimeConfig{PodCidr: arg(d, "pod-cidr", "")}
	}
	s.started = &journaletv1.AgentStarted{
		Epoch: s.g.epoch, Version: arg(d, "version", "scenario"), Config: c, BootId: "boot", AgentId: "agent",
	}
	s.g.world.boot, s.g.world.cpuQuota = s.started.GetBootId(), c.GetCpuQuota()
	first := proto.CloneOf(s.started)
	left := s.kubeletState(d) // neither is read again
	if first.KubeletState = left; d.HasArg("found") {
		first.KubeletState, first.FoundResources = nil, s.foundResources(d, left)
	}
	if err := s.put(messages.Agent, messages.NewEvent(first)); err != nil {
		return "", err
	}
	if d.HasArg("unready") {
		return "", nil
	}
	return "", s.put(messages.Runtime, healthEvent(true, true))
}

// sources returns the sources that a command configures.
func sources(d *datadriven.TestData, otherwise []string) []string {
	if v := values(d, "sources"); v != nil {
		return v
	}
	return otherwise
}

func healthEvent(runtime, network bool) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.RuntimeHealthChanged{RuntimeReady: runtime, NetworkReady: network})
}

// restart kills the agent, or with "stopped" stops it, and starts it again after a while, with the version and the
// sources that the command names. Its core is folded from the journal; the drivers lose what they knew.
func (s *Scenario) restart(d *datadriven.TestData) (string, error) {
	if d.HasArg("stopped") {
		stopped := messages.NewEvent(&journaletv1.AgentStopped{Reason: "stop requested"})
		if err := s.put(messages.Agent, stopped); err != nil {
			return "", err
		}
	}
	s.g.pass(duration(d, "down", 0))
	s.started = proto.CloneOf(s.started)
	s.started.Version = arg(d, "version", s.started.GetVersion())
	s.started.Config.Sources = sources(d, s.started.Config.Sources)
	if d.HasArg("account-pulls") {
		s.started.Config.PullsWithoutServiceAccount = false
	}
	s.started.BootId = arg(d, "boot", s.started.BootId)
	s.g.world.boot = s.started.GetBootId()
	if d.HasArg("managers") {
		s.started.Config.Managers = managers(d)
	}
	if d.HasArg("pod-cidr") {
		s.started.Config.RuntimeConfig = &journaletv1.RuntimeConfig{PodCidr: arg(d, "pod-cidr", "")}
	}
	return "", s.moment(func() error {
		f, err := s.g.fork(len(s.g.core.Records()), s.g.world, s.started, false)
		if err != nil {
			return err
		}
		s.g = f
		return nil
	})
}

// loseJournal continues with an empty journal beside the running pods. End plays no crash before it.
// loseJournal has the agent begin with an empty journal; with `kubelet`, beside what a kubelet has created.
func (s *Scenario) loseJournal(d *datadriven.TestData) (string, error) {
	s.g.epoch++
	s.g.core = fold.NewCore(fold.AllDeciders, s.g.names.manifest, s.g.epoch)
	s.g.armed, s.g.absorbed, s.printed, s.moments, s.started = map[timerKey]armedTimer{}, 0, 0, nil, nil
	clear(s.g.world.observed)
	clear(s.g.world.expected)
	clear(s.g.probed)
	s.g.world.forgetStarts()
	s.g.world.forgetClaims()
	if d.HasArg("kubelet") {
		s.g.world.forgetIntents()
	}
	return "", nil
}

func (s *Scenario) health(d *datadriven.TestData) (string, error) {
	ready := func(what string) bool { return arg(d, what, "ready") == "ready" }
	return "", s.put(messages.Runtime, healthEvent(ready("runtime"), ready("network")))
}

// advance lets time pass and fires the timers that become due, in order.
func (s *Scenario) advance(d *datadriven.TestData) (string, error) {
	by, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return "", err
	}
	return "", s.pass(by)
}

func (s *Scenario) pass(by time.Duration) error {
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

// clock sets the time of day. The uptime does not change.
func (s *Scenario) clock(d *datadriven.TestData) (string, error) {
	s.g.now = s.g.now.Add(duration(d, "forward", 0) - duration(d, "back", 0))
	return "", nil
}

// settle plays a world without faults to the end, as part of the scenario.
func (s *Scenario) settle(d *datadriven.TestData) (string, error) {
	if err := s.g.converge(); err != nil {
		return "", err
	}
	s.printed = len(s.g.core.Records())
	return s.g.summary() + "\n", nil
}
