package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// restartPod records an operator's request to restart a pod, or with container one of its containers. It prints the
// refusal of a request that does nothing.
func (s *Scenario) restartPod(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	container := arg(d, "container", "")
	answer := ""
	if a := s.g.pod(uid); a != nil {
		if err := a.CanRestart(container); err != nil {
			answer = "refused: " + err.Error() + "\n"
		}
	}
	s.g.world.objectsOf(uid).requested[container]++
	return answer, s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.RestartRequested{
		Uid: uid, Container: container, Client: "scenario",
	}))
}

// drain records an operator's request to drain the node: within grace=, with "critical" all of it.
func (s *Scenario) drain(d *datadriven.TestData) (string, error) {
	q := &journaletv1.DrainRequested{Client: "scenario", Critical: d.HasArg("critical")}
	if d.HasArg("grace") {
		q.Grace = durationpb.New(duration(d, "grace", 0))
	}
	return "", s.put(messages.Node, messages.NewEvent(q))
}

func (s *Scenario) uncordon(*datadriven.TestData) (string, error) {
	return "", s.put(messages.Node, messages.NewEvent(&journaletv1.UncordonRequested{Client: "scenario"}))
}

// shutdown records that the machine shuts down, or with "cancelled" that it does not any more.
func (s *Scenario) shutdown(d *datadriven.TestData) (string, error) {
	return "", s.put(messages.Node, messages.NewEvent(&journaletv1.ShutdownSignaled{Active: !d.HasArg("cancelled")}))
}

// oom records that the kernel killed a process in the newest instance of a container, whose memory limit was reached.
func (s *Scenario) oom(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	name := arg(d, "container", "main")
	return "", s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.OomKillObserved{
		Scope: journaletv1.OomScope_OOM_SCOPE_CONTAINER, Process: arg(d, "process", "main"),
		Pid: int32(number(d, "pid", 1)), Uid: uid, Container: name,
		ContainerId: s.g.world.objectsOf(uid).newest(name).GetId(),
	}))
}

// shutdownGroups returns the groups that a command names: shutdown=(priority:grace, ...).
func shutdownGroups(d *datadriven.TestData) []*journaletv1.ShutdownGroup {
	var groups []*journaletv1.ShutdownGroup
	for _, v := range values(d, "shutdown") {
		at, grace, _ := strings.Cut(v, ":")
		priority, _ := strconv.ParseInt(at, 10, 32)
		length, _ := time.ParseDuration(grace)
		groups = append(groups, &journaletv1.ShutdownGroup{Priority: int32(priority), Grace: durationpb.New(length)})
	}
	return groups
}
