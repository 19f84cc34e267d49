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

// sourceOf returns the source that a command names, the static pod directory by default.
func sourceOf(d *datadriven.TestData) string { return arg(d, "source", messages.FileSource) }

// file records the read of a file, or of a URL's response, that has changed. The body holds pods in YAML; apiVersion
// and kind may be omitted.
func (s *Scenario) file(d *datadriven.TestData) (string, error) {
	f, text := s.decode(d.CmdArgs[0].Key, d.Input, sourceOf(d))
	return text, s.read(sourceOf(d), f)
}

// files is file for several files in one read: a file a line, in YAML's flow style.
func (s *Scenario) files(d *datadriven.TestData) (string, error) {
	var all []*journaletv1.ManifestFile
	text := ""
	for line := range strings.Lines(d.Input) {
		path, pod, _ := strings.Cut(strings.TrimSpace(line), ": ")
		pod = strings.Replace(pod, "{metadata:", "{apiVersion: v1, kind: Pod, metadata:", 1)
		f, problems := s.decode(path, pod, sourceOf(d))
		all, text = append(all, f), text+problems
	}
	return text, s.read(sourceOf(d), all...)
}

// setClasses sets the node's runtime classes. Later reads are decoded with them.
func (s *Scenario) setClasses(d *datadriven.TestData) (string, error) {
	all, problems := manifest.DecodeRuntimeClasses("classes.yaml", []byte(d.Input))
	if len(problems) > 0 {
		return "", problems[0]
	}
	s.classes, _ = manifest.NewClasses(all)
	return "", nil
}

// decode returns the content of a file, and its problems as text.
func (s *Scenario) decode(path, body, source string) (*journaletv1.ManifestFile, string) {
	body = strings.ReplaceAll("\n"+body, "\nmetadata:", "\napiVersion: v1\nkind: Pod\nmetadata:")
	pods, problems := manifest.Decode("/pods/"+path, []byte(body), manifest.Options{
		NodeName: s.started.GetConfig().GetNodeName(), Source: manifest.Source(source), Classes: s.classes,
	})
	f := &journaletv1.ManifestFile{Path: path, Unreadable: len(pods) == 0 && len(problems) > 0}
	text := ""
	for _, p := range pods {
		s.name(string(p.Pod.UID), strings.TrimSuffix(p.Pod.Name, "-"+s.started.GetConfig().GetNodeName()))
		s.g.names.manifests[p.Digest], s.g.names.canonical[p.Digest] = p.Pod, p.Canonical
		f.Pods = append(f.Pods, &journaletv1.PodRef{
			Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest,
		})
		if at := p.Pod.CreationTimestamp; !at.IsZero() {
			f.Pods[len(f.Pods)-1].CreatedAt = timestamppb.New(at.Time)
		}
	}
	for _, p := range problems {
		text += p.Error() + "\n"
		f.Problems = append(f.Problems, &journaletv1.ManifestProblem{
			Line: uint32(p.Line), Field: p.Field, Code: string(p.Code), Message: p.Message, Pod: p.Pod,
		})
	}
	return f, text
}

// name gives a pod its alias: its name, numbered from the second pod of that name on.
func (s *Scenario) name(uid, name string) {
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

func (s *Scenario) remove(d *datadriven.TestData) (string, error) {
	return "", s.read(sourceOf(d), &journaletv1.ManifestFile{Path: d.CmdArgs[0].Key})
}

// readComplete records a complete read of a source without changes.
func (s *Scenario) readComplete(d *datadriven.TestData) (string, error) {
	return "", s.read(sourceOf(d))
}

func (s *Scenario) read(source string, changed ...*journaletv1.ManifestFile) error {
	read := &journaletv1.ManifestsRead{
		Source: source, Changed: changed, Synced: true, HeldNamesStay: true, HeldContentsStay: true,
	}
	return s.put(messages.Source(source), messages.NewEvent(read))
}

// uid returns the UID of the pod that a command names.
func (s *Scenario) uid(d *datadriven.TestData) (string, error) {
	alias := arg(d, "pod", "")
	for uid, a := range s.g.names.alias {
		if a == alias {
			return uid, nil
		}
	}
	return "", fmt.Errorf("no pod %q in this scenario", alias)
}

// call returns the one dispatched call that a command names.
func (s *Scenario) call(d *datadriven.TestData) (*journaletv1.Call, error) {
	var found []*journaletv1.Call
	for _, c := range s.g.dispatched() {
		r := c.GetRequest()
		op, container := opOf(r)
		id, image, secrets := idOf(r), r.GetPullImage().GetImage(), strings.Join(r.GetPullImage().GetPullSecrets(), "+")
		account := r.GetPullImage().GetServiceAccount()
		if op == d.CmdArgs[0].Key && s.g.names.aliasOf(r.GetPodUid()) == arg(d, "pod", "") &&
			container == arg(d, "container", container) && id == arg(d, "id", id) && image == arg(d, "image", image) &&
			secrets == arg(d, "secret", secrets) && account == arg(d, "account", account) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d calls under way match, want one", len(found))
	}
	return found[0], nil
}

// idOf returns the id of the object that a call removes or runs a hook in, or the pod CIDR: a container, or the
// runtime, may have several such calls.
func idOf(r *journaletv1.CallRequested) string {
	return r.GetRemoveContainer().GetContainerId() + r.GetRemoveSandbox().GetSandboxId() +
		r.GetRunHook().GetContainerId() + r.GetRemoveImage().GetImageId() +
		r.GetUpdateRuntimeConfig().GetPodCidr()
}

// done performs a call and records its outcome. With "seen" it then inspects the pod. "done all" does so with all calls
// that are under way now.
func (s *Scenario) done(d *datadriven.TestData) (string, error) {
	var calls []*journaletv1.Call
	if d.CmdArgs[0].Key == "all" {
		if err := s.createAll(); err != nil {
			return "", err
		}
		calls = s.g.dispatched()
	} else {
		if err := s.createFirst(d); err != nil {
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
		if err := s.moment(func() error { return s.g.finish(out) }); err != nil {
			return "", err
		}
		if uid := c.GetRequest().GetPodUid(); d.HasArg("seen") && uid != "" {
			if err := s.inspect(uid); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// createFirst first performs the call that creates a container if a command names its start: most scenarios need not
// distinguish the two.
func (s *Scenario) createFirst(d *datadriven.TestData) error {
	if d.CmdArgs[0].Key != "start-container" {
		return nil
	}
	created := *d
	created.CmdArgs = append([]datadriven.CmdArg{{Key: "create-container"}}, d.CmdArgs[1:]...)
	c, err := s.call(&created)
	if err != nil {
		return nil // it is created, or one call creates and starts it
	}
	return s.moment(func() error { return s.g.finish(s.g.perform(c)) })
}

// createAll performs the calls that create containers, so that "done all" also starts them.
func (s *Scenario) createAll() error {
	for _, c := range s.g.dispatched() {
		if op, _ := opOf(c.GetRequest()); op != "create-container" {
			continue
		}
		if err := s.moment(func() error { return s.g.finish(s.g.perform(c)) }); err != nil {
			return err
		}
	}
	return nil
}

// lose performs a call whose outcome is lost.
func (s *Scenario) lose(d *datadriven.TestData) (string, error) {
	if err := s.createFirst(d); err != nil {
		return "", err
	}
	c, err := s.call(d)
	if err == nil {
		s.g.perform(c)
	}
	return "", err
}

// gone are the volumes that a start has found gone.
func gone(names []string, message string) (all []*journaletv1.VolumeOutcome) {
	for _, name := range names {
		all = append(all, &journaletv1.VolumeOutcome{Name: name, Message: message, Retryable: true})
	}
	return all
}

// fail records a call's failure. The world does not change, but for volumes that a start has found gone:
// "gone=(<name>,...)".
func (s *Scenario) fail(d *datadriven.TestData) (string, error) {
	c, err := s.call(d)
	if err != nil {
		return "", err
	}
	if values(d, "volume") != nil {
		return "", s.failVolumesOf(d, c)
	}
	if d.HasArg("stage") {
		return "", s.failClaims(d, c)
	}
	code := journaletv1.CallError_value["CALL_ERROR_"+strings.ToUpper(arg(d, "error", "runtime"))]
	if code == 0 {
		return "", fmt.Errorf("no such error")
	}
	f := &journaletv1.CallFinished{
		IntentId: c.GetIntentId(), Requester: c.GetRequester(),
		Error: journaletv1.CallError(code), Message: arg(d, "message", "it failed"),
		MissingVolumeImage: arg(d, "volume-image", ""), Retryable: d.HasArg("retryable"),
		Volumes: gone(values(d, "gone"), arg(d, "message", "it failed")),
	}
	if known := arg(d, "failed-start", ""); known != "" {
		v, ok := journaletv1.FailedStart_value["FAILED_START_"+strings.ToUpper(known)]
		if !ok {
			return "", fmt.Errorf("no such failed-start")
		}
		f.FailedStart = journaletv1.FailedStart(v)
		f.ContainerId = c.GetRequest().GetStartContainer().GetContainerId()
	}
	return "", s.moment(func() error { return s.g.finish(f) })
}

func (s *Scenario) inspect(uid string) error {
	return s.moment(func() error { _, err := s.g.inspect(uid); return err })
}

// observe inspects a pod. After "observe begins", "observe ends" records the observation: it does not show what happens
// between the two.
func (s *Scenario) observe(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	switch {
	case err != nil:
		return "", err
	case d.HasArg("begins"):
		s.inspecting = s.g.world.inspect(uid, s.g.now)
		return "", nil
	case d.HasArg("ends"):
		s.g.world.observed[uid] = s.inspecting
		return "", s.put(messages.Pod(uid), messages.NewEvent(s.inspecting))
	}
	return "", s.inspect(uid)
}

// exit ends a container by itself, after a while, and inspects its pod.
func (s *Scenario) exit(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	if err := s.pass(duration(d, "after", 0)); err != nil {
		return "", err
	}
	o := s.g.world.objectsOf(uid)
	c := o.newest(arg(d, "container", "main"))
	o.end(c.GetId(), int32(number(d, "code", 0)), s.g.now)
	if reason := arg(d, "reason", ""); c != nil && reason != "" {
		c.Reason = reason
	}
	return "", s.inspect(uid)
}

// disturb changes the world. The agent does not learn of it before the next inspection.
func (s *Scenario) disturb(d *datadriven.TestData) (string, error) {
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
	o := s.g.world.objectsOf(uid)
	c := o.newest(arg(d, "container", "main"))
	switch d.CmdArgs[0].Key {
	case "sandbox-dies":
		for _, x := range o.sandboxes {
			o.stopSandbox(x.GetId(), s.g.now)
		}
	case "network-lost":
		for _, x := range o.sandboxes {
			x.Ips, x.NoAddress = nil, x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY
		}
	case "cgroup-lost":
		return "", s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.PodCgroupLost{Uid: uid}))
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
		c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_EXITED, nil
		c.FinishedAt, c.ExitCode, c.Reason = timestamppb.New(s.g.now), 128, "StartError"
	case "only-created":
		c.State, c.StartedAt = journaletv1.ContainerState_CONTAINER_STATE_CREATED, nil
	default:
		return "", fmt.Errorf("no such change of the world")
	}
	return "", nil
}

// status shows a pod as kubectl would.
func (s *Scenario) status(d *datadriven.TestData) (string, error) {
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
	for i, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses) {
		kind := "container"
		switch inits := len(p.Status.InitContainerStatuses); {
		case i < inits:
			kind = "init container"
		case i >= inits+len(p.Status.ContainerStatuses):
			kind = "ephemeral container"
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

// calls lists the dispatcher's calls.
func (s *Scenario) calls(*datadriven.TestData) (string, error) {
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
