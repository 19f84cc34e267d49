package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Wander makes up the next command of a story, carries it out and gives it with what followed, as a
// story file would hold it. The story must have started.
func (s *Story) Wander(r *rand.Rand) string {
	line, body := s.invent(r)
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		panic(err)
	}
	out := s.Run(&datadriven.TestData{Pos: line, Cmd: cmd, CmdArgs: args, Input: body})
	return strings.TrimSpace(line+"\n"+body) + "\n----\n" + out + "\n"
}

// Failed tells what a check behind the story found wrong, nil for nothing.
func (s *Story) Failed() error { return s.failed }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (s *Story) invent(r *rand.Rand) (line, body string) {
	switch n := r.IntN(23); {
	case n < 2:
		return "file " + s.someFile(r), manifestOf(r)
	case n < 3:
		return "remove " + s.someFile(r), ""
	case n < 10:
		if calls := s.g.dispatched(); len(calls) > 0 {
			return s.outcome(r, pick(r, calls...)), ""
		}
		return "advance 1s", ""
	case n < 14:
		if uid := s.somePod(r); uid != "" {
			return "observe pod=" + s.g.names.of(uid), ""
		}
		return "advance 10ms", ""
	case n < 16:
		return s.mishap(r), ""
	case n < 18:
		return "advance " + pick(r, "1ms", "1s", "5s", "10s", "1m", "10m"), ""
	case n < 19:
		sources := ""
		if s.g.source(messages.FileSource).GetSeveralSources() {
			sources = pick(r, "", " sources=(file)", " sources=(file,http)")
		}
		return "restart-agent down=" + pick(r, "1ms", "1s", "1m") + sources, ""
	case n < 22:
		return cmp.Or(s.someProbe(r), "advance 10ms"), ""
	}
	return pick(r, "health runtime=notready network=notready", "health network=notready", "health", "clock back=90s"), ""
}

func (s *Story) someFile(r *rand.Rand) string {
	files := []string{"f.yaml", "g.yaml"}
	if len(s.started.GetConfig().GetSources()) > 1 {
		files = append(files, "pods source=http", "pods source=http")
	}
	return pick(r, files...)
}

func manifestOf(r *rand.Rand) string {
	uid, pull, volumes, side := "", "", "", ""
	if r.IntN(2) == 0 {
		uid = ", uid: " + pick(r, "aaaa", "bbbb")
	}
	if r.IntN(3) == 0 {
		pull = ", imagePullPolicy: " + pick(r, "Always", "Never")
	}
	if r.IntN(3) == 0 {
		volumes = ", volumes: [{name: data, emptyDir: {}}]"
	}
	if r.IntN(3) == 0 {
		side = `, {name: side, image: "app:1"}`
	}
	return fmt.Sprintf("metadata: {name: %s%s}\nspec: {restartPolicy: %s, hostNetwork: %t, %s%scontainers: [{name: main, image: %q%s%s}%s]%s}\n",
		pick(r, "a", "b"), uid, pick(r, "Always", "OnFailure", "Never"), r.IntN(4) == 0, deadlineOf(r), initsOf(r),
		pick(r, "app:1", "app:2"), pull, policyOf(r, 8)+probesOf(r)+hooksOf(r)+sizeOf(r), side, volumes)
}

// hooksOf makes up hooks for every third container.
func hooksOf(r *rand.Rand) string {
	if r.IntN(3) != 0 {
		return ""
	}
	const postStart, preStop = "postStart: {sleep: {seconds: 1}}", "preStop: {sleep: {seconds: 1}}"
	return ", lifecycle: {" + pick(r, postStart, preStop, postStart+", "+preStop) + "}"
}

// initsOf makes up init containers, sidecars among them, for every other pod.
func initsOf(r *rand.Rand) string {
	var list []string
	for _, name := range []string{"one", "proxy", "two"} {
		if r.IntN(4) != 0 {
			continue
		}
		policy := policyOf(r, 4)
		if name == "proxy" {
			policy = ", restartPolicy: Always" + probesOf(r) + hooksOf(r)
		}
		list = append(list, fmt.Sprintf("{name: %s, image: %q%s}", name, pick(r, "app:1", "app:2"), policy+sizeOf(r)))
	}
	if len(list) == 0 {
		return ""
	}
	return "initContainers: [" + strings.Join(list, ", ") + "], "
}

// sizeOf makes up resources for every other container. The node has 4 CPUs.
func sizeOf(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return ""
	}
	policy := pick(r, "", "", ", resizePolicy: [{resourceName: "+pick(r, "cpu", "memory")+", restartPolicy: "+pick(r, "NotRequired", "RestartContainer")+"}]")
	return fmt.Sprintf("%s, resources: {requests: {cpu: %s, memory: %s}, limits: {memory: %s}}", policy,
		pick(r, "100m", "200m", "3", "5"), pick(r, "32Mi", "64Mi"), pick(r, "64Mi", "128Mi"))
}

// policyOf makes up a container's own restart policy for one in n.
func policyOf(r *rand.Rand, n int) string {
	if r.IntN(n) != 0 {
		return ""
	}
	return pick(r, ", restartPolicy: OnFailure", ", restartPolicy: Never",
		", restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [1]}}]",
		", restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]")
}

func deadlineOf(r *rand.Rand) string {
	if r.IntN(10) != 0 {
		return ""
	}
	return "activeDeadlineSeconds: " + pick(r, "5", "90", "1000") + ", "
}

// outcome ends a call, most often well.
func (s *Story) outcome(r *rand.Rand, c *journaletv1.Call) string {
	op, container := opOf(c.GetRequest())
	call := op
	if uid := c.GetRequest().GetPodUid(); uid != "" {
		call += " pod=" + s.g.names.of(uid)
	}
	if container != "" {
		call += " container=" + container
	}
	if p := c.GetRequest().GetPullImage(); p != nil {
		call += " image=" + p.GetImage()
	}
	if id := idOf(c.GetRequest()); id != "" {
		call += " id=" + id
	}
	n := r.IntN(10)
	if s.lost[c.GetIntentId()] {
		n = 9 // what has been made is found
	}
	switch {
	case n < 2:
		code := "runtime"
		switch op {
		case "post-start", "pre-stop":
			code = "hook"
		case "start-container", "make-container":
			code = pick(r, "create", "config", "image_not_present")
		}
		return "fail " + call + " error=" + code
	case n < 4:
		return "lose " + call
	case n < 7:
		return "done " + call
	}
	return "done " + call + " seen"
}

// mishap lets something happen on the node that the agent has no part in.
func (s *Story) mishap(r *rand.Rand) string {
	uid := s.somePod(r)
	if uid == "" {
		return "world reboot"
	}
	o, pod := s.g.world.of(uid), " pod="+s.g.names.of(uid)
	if len(o.containers) == 0 {
		return pick(r, "world sandbox-dies", "world all-vanishes") + pod
	}
	pod += " container=" + pick(r, o.containers...).GetName()
	if r.IntN(2) == 0 {
		return fmt.Sprintf("exit%s code=%d after=%s", pod, r.IntN(2), pick(r, "0s", "1s", "11m"))
	}
	if len(s.g.world.told[uid].GetContainers()) != len(o.containers) || len(s.lost) > 0 {
		// What goes before a look has shown it is not missed: the PLEG tells nothing. And what goes while the call
		// that made it is in doubt is made again.
		return "world exits" + pod
	}
	return pick(r, "world sandbox-dies", "world exits", "world vanishes", "world all-vanishes", "world loses-track") + pod
}

// somePod is a pod of which the world holds something; "" if it holds nothing.
func (s *Story) somePod(r *rand.Rand) string {
	var uids []string
	for _, uid := range s.g.world.uids() {
		if s.g.names.alias[uid] != "" {
			uids = append(uids, uid)
		}
	}
	if len(uids) == 0 {
		return ""
	}
	return pick(r, uids...)
}
