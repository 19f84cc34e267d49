package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// sourceOf is the source that a command means, the folder if it says nothing.
func sourceOf(d *datadriven.TestData) string { return arg(d, "source", messages.FileSource) }

// file is what a source's driver hands over after a file, or what a URL gives, was written. The body holds pods in YAML,
// in which apiVersion and kind may be left out.
func (s *Story) file(d *datadriven.TestData) (string, error) {
	f, text := s.decode(d.CmdArgs[0].Key, d.Input, sourceOf(d))
	return text, s.read(sourceOf(d), f)
}

// files is file for several files, which are told at once: a file a line, in YAML's flow style.
func (s *Story) files(d *datadriven.TestData) (string, error) {
	var all []*journaletv1.ManifestFile
	text := ""
	for line := range strings.Lines(d.Input) {
		path, pod, _ := strings.Cut(strings.TrimSpace(line), ": ")
		f, told := s.decode(path, strings.Replace(pod, "{metadata:", "{apiVersion: v1, kind: Pod, metadata:", 1), sourceOf(d))
		all, text = append(all, f), text+told
	}
	return text, s.read(sourceOf(d), all...)
}

// setClasses gives the node other runtime classes. What is read from then on is decoded with them.
func (s *Story) setClasses(d *datadriven.TestData) (string, error) {
	all, problems := manifest.DecodeRuntimeClasses("classes.yaml", []byte(d.Input))
	if len(problems) > 0 {
		return "", problems[0]
	}
	s.classes, _ = manifest.NewRuntimeClasses(all)
	return "", nil
}

// decode is what a file holds, and what is wrong with it.
func (s *Story) decode(path, body, source string) (*journaletv1.ManifestFile, string) {
	body = strings.ReplaceAll("\n"+body, "\nmetadata:", "\napiVersion: v1\nkind: Pod\nmetadata:")
	pods, problems := manifest.Decode("/pods/"+path, []byte(body), manifest.Options{
		NodeName: s.started.GetConfig().GetNodeName(), Source: manifest.Source(source), Classes: s.classes,
	})
	f := &journaletv1.ManifestFile{Path: path, Unreadable: len(pods) == 0 && len(problems) > 0}
	text := ""
	for _, p := range pods {
		s.name(string(p.Pod.UID), strings.TrimSuffix(p.Pod.Name, "-"+s.started.GetConfig().GetNodeName()))
		s.g.names.manifests[p.Digest] = p.Pod
		f.Pods = append(f.Pods, &journaletv1.PodRef{Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest})
		if at := p.Pod.CreationTimestamp; !at.IsZero() {
			f.Pods[len(f.Pods)-1].CreatedAt = timestamppb.New(at.Time)
		}
	}
	for _, p := range problems {
		text += p.Error() + "\n"
		f.Problems = append(f.Problems, &journaletv1.ManifestProblem{Line: uint32(p.Line), Field: p.Field, Code: string(p.Code), Message: p.Message})
	}
	return f, text
}

// name gives a pod its alias: its name, with a number from the second pod of that name on.
func (s *Story) name(uid, name string) {
	n := s.g.names
	if n.alias[uid] != "" {
		return
	}
	alias := name
	for i := 2; slices.ContainsFunc(n.uids, func(other string) bool { return n.alias[other] == alias }); i++ {
		alias = fmt.Sprintf("%s#%d", name, i)
	}
	n.alias[uid] = alias
	n.uids = append(n.uids, uid)
}

func (s *Story) remove(d *datadriven.TestData) (string, error) {
	return "", s.read(sourceOf(d), &journaletv1.ManifestFile{Path: d.CmdArgs[0].Key})
}

// readWhole is the whole reading of a source in which nothing has changed.
func (s *Story) readWhole(d *datadriven.TestData) (string, error) { return "", s.read(sourceOf(d)) }

func (s *Story) read(source string, changed ...*journaletv1.ManifestFile) error {
	return s.put(messages.Source(source), &journaletv1.Event{Kind: &journaletv1.Event_ManifestsRead{
		ManifestsRead: &journaletv1.ManifestsRead{Source: source, Changed: changed, Synced: true},
	}})
}

// uid is the pod that a command names.
func (s *Story) uid(d *datadriven.TestData) (string, error) {
	alias := arg(d, "pod", "")
	for uid, a := range s.g.names.alias {
		if a == alias {
			return uid, nil
		}
	}
	return "", fmt.Errorf("no pod %q in this story", alias)
}

// call is the one dispatched call that a command means.
func (s *Story) call(d *datadriven.TestData) (*journaletv1.Call, error) {
	var found []*journaletv1.Call
	for _, c := range s.g.dispatched() {
		op, container := opOf(c.GetRequest())
		if op == d.CmdArgs[0].Key && s.g.names.of(c.GetRequest().GetPodUid()) == arg(d, "pod", "") &&
			container == arg(d, "container", container) && idOf(c.GetRequest()) == arg(d, "id", idOf(c.GetRequest())) && c.GetRequest().GetPullImage().GetImage() == arg(d, "image", c.GetRequest().GetPullImage().GetImage()) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d calls under way are meant, not one", len(found))
	}
	return found[0], nil
}

// idOf is the object that a call removes, or has run its hook, where there may be several such calls.
func idOf(r *journaletv1.CallRequested) string {
	return r.GetRemoveContainer().GetContainerId() + r.GetRemoveSandbox().GetSandboxId() + r.GetRunHook().GetContainerId()
}

// done performs a call and tells its outcome; with seen, what a look then shows. "done all" does so
// with all calls that are under way now.
func (s *Story) done(d *datadriven.TestData) (string, error) {
	var calls []*journaletv1.Call
	if d.CmdArgs[0].Key == "all" {
		if err := s.makeAll(); err != nil {
			return "", err
		}
		calls = s.g.dispatched()
	} else {
		if err := s.makeFirst(d); err != nil {
			return "", err
		}
		c, err := s.call(d)
		if err != nil {
			return "", err
		}
		calls = []*journaletv1.Call{c}
	}
	for _, c := range calls {
		out := s.g.perform(c)
		delete(s.lost, c.GetIntentId())
		if err := s.moment(func() error { return s.g.finish(out) }); err != nil {
			return "", err
		}
		if uid := c.GetRequest().GetPodUid(); d.HasArg("seen") && uid != "" {
			if err := s.look(uid); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// makeFirst ends the call that makes a container where a story tells of its start: most have no need to tell the two apart.
func (s *Story) makeFirst(d *datadriven.TestData) error {
	if d.CmdArgs[0].Key != "start-container" {
		return nil
	}
	made := *d
	made.CmdArgs = append([]datadriven.CmdArg{{Key: "make-container"}}, d.CmdArgs[1:]...)
	c, err := s.call(&made)
	if err != nil {
		return nil // it is made, or one call makes and starts it
	}
	return s.moment(func() error { return s.g.finish(s.g.perform(c)) })
}

// makeAll ends the calls that make containers, so that those are started with all else.
func (s *Story) makeAll() error {
	for _, c := range s.g.dispatched() {
		if op, _ := opOf(c.GetRequest()); op != "make-container" {
			continue
		}
		if err := s.moment(func() error { return s.g.finish(s.g.perform(c)) }); err != nil {
			return err
		}
	}
	return nil
}

// lose performs a call whose outcome nobody hears of.
func (s *Story) lose(d *datadriven.TestData) (string, error) {
	if err := s.makeFirst(d); err != nil {
		return "", err
	}
	c, err := s.call(d)
	if err == nil {
		s.g.perform(c)
		s.lost[c.GetIntentId()] = true
	}
	return "", err
}

// fail tells a call's failure; the world stays as it is.
func (s *Story) fail(d *datadriven.TestData) (string, error) {
	c, err := s.call(d)
	if err != nil {
		return "", err
	}
	code := journaletv1.CallError_value["CALL_ERROR_"+strings.ToUpper(arg(d, "error", "runtime"))]
	if code == 0 {
		return "", fmt.Errorf("no such error")
	}
	return "", s.moment(func() error {
		return s.g.finish(&journaletv1.CallFinished{
			IntentId: c.GetIntentId(), Requester: c.GetRequester(), Error: journaletv1.CallError(code), Message: arg(d, "message", "it failed"),
		})
	})
}

func (s *Story) look(uid string) error {
	return s.moment(func() error { _, err := s.g.look(uid); return err })
}

// observe looks at a pod. A look that only begins is told by "observe ends": what happens between the
// two was not seen.
func (s *Story) observe(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	switch {
	case err != nil:
		return "", err
	case d.HasArg("begins"):
		s.looking = s.g.world.look(uid, s.g.now)
		return "", nil
	case d.HasArg("ends"):
		s.g.world.told[uid] = s.looking
		return "", s.put(messages.Pod(uid), observed(s.looking))
	}
	return "", s.look(uid)
}

// exit lets a container end by itself, after a while, and looks at it.
func (s *Story) exit(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	if err := s.pass(duration(d, "after", 0)); err != nil {
		return "", err
	}
	o := s.g.world.of(uid)
	o.end(o.newest(arg(d, "container", "main")).GetId(), int32(number(d, "code", 0)), s.g.now)
	return "", s.look(uid)
}

// disturb changes the world behind the agent's back; nothing is told of it.
func (s *Story) disturb(d *datadriven.TestData) (string, error) {
	if d.CmdArgs[0].Key == "reboot" {
		for _, o := range s.g.world.pods {
			for _, x := range o.sandboxes {
				o.stopSandbox(x.GetId(), s.g.now)
			}
		}
		return "", nil
	}
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	o := s.g.world.of(uid)
	c := o.newest(arg(d, "container", "main"))
	switch d.CmdArgs[0].Key {
	case "sandbox-dies":
		for _, x := range o.sandboxes {
			o.stopSandbox(x.GetId(), s.g.now)
		}
	case "exits":
		o.end(c.GetId(), int32(number(d, "code", 0)), s.g.now)
	case "all-vanishes":
		o.sandboxes, o.containers = nil, nil
	case "vanishes":
		o.containers = slices.DeleteFunc(o.containers, func(x *journaletv1.ContainerObservation) bool { return x == c })
	case "loses-track":
		if c.GetState() != journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
			return "", nil
		}
		c.State = journaletv1.ContainerState_CONTAINER_STATE_UNKNOWN
	case "gives-up":
		c.State, c.StartedAt, c.FinishedAt, c.ExitCode, c.Reason = journaletv1.ContainerState_CONTAINER_STATE_EXITED, nil, timestamppb.New(s.g.now), 128, "StartError"
	case "only-created":
		c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_CREATED, nil
	default:
		return "", fmt.Errorf("the world does no such thing")
	}
	return "", nil
}

// status is what kubectl would show.
func (s *Story) status(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	a := s.g.pod(uid)
	if a == nil {
		return "no such pod\n", nil
	}
	p := a.View(pod.Node{RuntimeName: "fake"})
	text := fmt.Sprintf("%s phase=%s", p.Name, p.Status.Phase)
	if p.Status.Reason != "" {
		text += fmt.Sprintf(" reason=%s (%s)", p.Status.Reason, p.Status.Message)
	}
	text += "\n"
	for _, c := range p.Status.Conditions {
		text += fmt.Sprintf("  %s=%s %s", c.Type, c.Status, since(c.LastTransitionTime.Time))
		if c.Reason != "" {
			text += " " + c.Reason
		}
		if (c.Type == corev1.PodInitialized || c.Type == corev1.PodReadyToStartContainers) && c.Message != "" {
			text += " (" + c.Message + ")"
		}
		text += "\n"
	}
	for i, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		kind := "container"
		if i < len(p.Status.InitContainerStatuses) {
			kind = "init container"
		}
		text += fmt.Sprintf("  %s %s: ", kind, c.Name)
		switch {
		case c.State.Waiting != nil:
			text += "waiting " + c.State.Waiting.Reason
			if m := c.State.Waiting.Message; m != "" {
				text += " (" + strings.ReplaceAll(m, uid, "UID") + ")"
			}
		case c.State.Running != nil:
			text += "running " + since(c.State.Running.StartedAt.Time)
		case c.State.Terminated != nil:
			t := c.State.Terminated
			text += fmt.Sprintf("terminated %d %s %s", t.ExitCode, t.Reason, since(t.FinishedAt.Time))
		}
		if t := c.LastTerminationState.Terminated; t != nil {
			text += fmt.Sprintf(", before: %d %s", t.ExitCode, t.Reason)
		}
		text += fmt.Sprintf(", ready=%t restarts=%d\n", c.Ready, c.RestartCount)
	}
	return text, nil
}

// calls lists the calls in the runtime actor's books.
func (s *Story) calls(*datadriven.TestData) (string, error) {
	var all []*journaletv1.Call
	for _, c := range s.g.runtime().GetCalls() {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *journaletv1.Call) int { return int(a.GetArrival()) - int(b.GetArrival()) })
	text := ""
	for _, c := range all {
		stage := "queued"
		if c.GetStage() == journaletv1.CallStage_CALL_STAGE_DISPATCHED {
			stage = "under way"
		}
		text += fmt.Sprintf("%s: %s\n", s.g.names.intent(c.GetIntentId()), stage)
	}
	return text, nil
}
