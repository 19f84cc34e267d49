package describe

import (
	"fmt"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// operatorEvent describes what people do on the node, and what the node decides about it.
func (d *Describer) operatorEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_SessionStarted:
		return sessionStarted(k.SessionStarted)
	case *journaletv1.Event_SessionEnded:
		return sessionEnded(k.SessionEnded)
	case *journaletv1.Event_RestartRequested:
		what := "all containers"
		if c := k.RestartRequested.GetContainer(); c != "" {
			what = "container " + c
		}
		return by("restart of "+what+" requested", k.RestartRequested.GetClient())
	case *journaletv1.Event_DrainRequested:
		return by(drainRequested(k.DrainRequested), k.DrainRequested.GetClient())
	case *journaletv1.Event_UncordonRequested:
		return by("end of the drain requested", k.UncordonRequested.GetClient())
	case *journaletv1.Event_ShutdownSignaled:
		if k.ShutdownSignaled.GetActive() {
			return "the machine is shutting down"
		}
		return "the shutdown of the machine was cancelled"
	case *journaletv1.Event_PodEvictionDecided:
		v := k.PodEvictionDecided
		return withMessage(fmt.Sprintf("ending pod %s (%s)", d.podName(v.GetUid()), v.GetReason()), v.GetMessage())
	case *journaletv1.Event_PodReadmitted:
		return fmt.Sprintf("pod %s is to be admitted again", d.podName(k.PodReadmitted.GetUid()))
	case *journaletv1.Event_DrainProgressed:
		return d.drainProgressed(k.DrainProgressed)
	}
	return d.pressure(e)
}

// drainRequested returns what a drain ends, and within which grace.
func drainRequested(q *journaletv1.DrainRequested) string {
	s := "drain of the node requested"
	if q.GetCritical() {
		s += ", with system-critical pods"
	}
	if q.GetGrace() != nil {
		s += ", grace period of at most " + span(q.GetGrace().AsDuration())
	}
	return s
}

func (d *Describer) drainProgressed(p *journaletv1.DrainProgressed) string {
	what := "drain"
	if p.GetShutdown() {
		what = "shutdown"
	}
	if len(p.GetWaitingFor()) == 0 {
		return what + " complete: no pod is left to end"
	}
	names := make([]string, len(p.GetWaitingFor()))
	for i, uid := range p.GetWaitingFor() {
		names[i] = d.podName(uid)
	}
	text := what + " waits for " + list(names, 6)
	if p.GetVolumes() {
		text += ", and until their volumes are torn down"
	}
	return text
}

// session returns what a client does: "exec of sh in container web".
func session(kind journaletv1.SessionKind, container string) string {
	s := map[journaletv1.SessionKind]string{
		journaletv1.SessionKind_SESSION_KIND_EXEC:         "exec",
		journaletv1.SessionKind_SESSION_KIND_ATTACH:       "attach",
		journaletv1.SessionKind_SESSION_KIND_PORT_FORWARD: "port-forward",
		journaletv1.SessionKind_SESSION_KIND_LOGS:         "logs",
		journaletv1.SessionKind_SESSION_KIND_CHECKPOINT:   "checkpoint",
	}[kind]
	if s == "" {
		s = "session"
	}
	if container != "" {
		s += " in container " + container
	}
	return s
}

func sessionStarted(s *journaletv1.SessionStarted) string {
	text := session(s.GetKind(), s.GetContainer())
	if s.GetCommand() != "" {
		text += ": " + clip(s.GetCommand())
		if n := int(s.GetArguments()); n > 0 {
			text += " with " + Count(n, "argument")
		}
	}
	return by(text, s.GetClient())
}

func sessionEnded(s *journaletv1.SessionEnded) string {
	text := session(s.GetKind(), s.GetContainer()) + " ended after " + span(s.GetDuration().AsDuration())
	if s.ExitCode != nil {
		text += fmt.Sprintf(", exit code %d", s.GetExitCode())
	}
	return withMessage(text, s.GetMessage())
}

// by adds who did it.
func by(s, client string) string {
	if client == "" {
		return s
	}
	return s + ", by " + clip(client)
}

// storageEvent describes images on the node, and logs.
func (d *Describer) storageEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagesObserved:
		return imagesObserved(k.ImagesObserved)
	case *journaletv1.Event_ImageFilesystemFull:
		f := k.ImageFilesystemFull
		return fmt.Sprintf("the file system of images is nearly full: %s of %s free", Size(f.GetAvailableBytes()),
			Size(f.GetCapacityBytes()))
	case *journaletv1.Event_ImagesCollected:
		return imagesCollected(k.ImagesCollected)
	case *journaletv1.Event_OperatorPullRequested:
		return by("pull of image "+k.OperatorPullRequested.GetImage()+" requested", k.OperatorPullRequested.GetClient())
	case *journaletv1.Event_OperatorPullDecided:
		p := k.OperatorPullDecided
		if p.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
			return withMessage("cannot pull image "+p.GetImage(), p.GetMessage())
		}
		return fmt.Sprintf("pulled image %s in %s (%s)", p.GetImage(), span(p.GetDuration().AsDuration()), Size(p.GetBytes()))
	case *journaletv1.Event_ImageRemovalRequested:
		return by("removal of image "+k.ImageRemovalRequested.GetName()+" requested", k.ImageRemovalRequested.GetClient())
	case *journaletv1.Event_ImageRemovalDecided:
		r := k.ImageRemovalDecided
		if r.GetMessage() != "" {
			return withMessage("image "+r.GetName()+" stays", r.GetMessage())
		}
		return "removed image " + r.GetName()
	case *journaletv1.Event_LogRotated:
		r := k.LogRotated
		if r.GetMessage() != "" {
			return withMessage("cannot rotate the log of container "+r.GetContainer(), r.GetMessage())
		}
		return fmt.Sprintf("rotated the log of container %s (%s)", r.GetContainer(), Size(r.GetBytes()))
	}
	return ""
}

// imagesCollected describes a garbage collection. One that frees too little has the kubelet's reason.
func imagesCollected(c *journaletv1.ImagesCollected) string {
	removing := "removing " + Count(len(c.GetImages()), "image") + " with " + Size(c.GetFreedBytes())
	if c.GetFreedBytes() >= c.GetWantedBytes() {
		return "image garbage collection: " + removing + " to free " + Size(c.GetWantedBytes())
	}
	if len(c.GetImages()) == 0 {
		removing = "no image may be removed"
	}
	return fmt.Sprintf("FreeDiskSpaceFailed: %s has to be freed, and %s; what fills the file system of images is in use, "+
		"or no image", Size(c.GetWantedBytes()), removing)
}

func imagesObserved(o *journaletv1.ImagesObserved) string {
	var parts []string
	if n := len(o.GetPresent()); n > 0 {
		what := " new or changed"
		if o.GetComplete() {
			what = " on the node"
		}
		parts = append(parts, Count(n, "image")+what)
	}
	if n := len(o.GetRemoved()); n > 0 {
		parts = append(parts, Count(n, "image")+" gone")
	}
	if len(parts) == 0 {
		return "no images on the node"
	}
	return strings.Join(parts, ", ")
}
