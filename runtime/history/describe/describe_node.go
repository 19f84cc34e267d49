package describe

import (
	"fmt"
	"strings"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

func (d *Describer) admissionEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_AdmissionRequested:
		return "requested admission of pod " + k.AdmissionRequested.GetName()
	case *journaletv1.Event_AdmissionDecided:
		a := k.AdmissionDecided
		if a.GetAdmitted() && a.GetReason() != "" {
			return withMessage(fmt.Sprintf("left pod %s alone: %s", d.podName(a.GetUid()), a.GetReason()), a.GetMessage())
		}
		if a.GetAdmitted() {
			return "admitted pod " + d.podName(a.GetUid()) + exclusiveText(a.GetExclusive()) + restText(a.GetRest())
		}
		return withMessage(fmt.Sprintf("rejected pod %s: %s", d.podName(a.GetUid()), a.GetReason()), a.GetMessage())
	case *journaletv1.Event_FoundCpusLeft:
		return fmt.Sprintf("containers of pod %s have left the CPUs that they had", d.podName(k.FoundCpusLeft.GetUid()))
	case *journaletv1.Event_SharedCpusDecided:
		return fmt.Sprintf("containers without CPUs of their own share CPUs %s", k.SharedCpusDecided.GetCpus())
	case *journaletv1.Event_AdmissionPendingPreemption:
		a := k.AdmissionPendingPreemption
		text := d.pendingPreemption("admission", a.GetUid(), a.GetFullName(), a.GetVictims())
		if reserved, some := strings.CutPrefix(exclusiveText(a.GetExclusive()), ", "); some {
			text += "; reserved: " + reserved
		}
		return text
	case *journaletv1.Event_AdmissionDeferred:
		a := k.AdmissionDeferred
		if a.GetReason() != "" {
			return withMessage("deferred admission of pod "+d.podName(a.GetUid())+": "+a.GetReason(), a.GetMessage())
		}
		// The holder by UID: both pods have one name.
		const text = "deferred admission of pod %s until pod %s, which has its name, has terminated"
		return fmt.Sprintf(text, d.podName(a.GetUid()), a.GetHolderUid())
	}
	return ""
}

// exclusiveText describes the exclusive resources of containers.
func exclusiveText(list []*journaletv1.ExclusiveContainer) string {
	text := ""
	for _, c := range list {
		switch nodes := c.GetMemoryNodes(); {
		case len(nodes) == 0:
			text += fmt.Sprintf(", %s on exclusive CPUs %s", c.GetContainer(), c.GetCpus())
		case c.GetCpus() == "":
			text += fmt.Sprintf(", %s with memory of NUMA nodes %v", c.GetContainer(), nodes)
		default:
			text += fmt.Sprintf(", %s on exclusive CPUs %s with memory of NUMA nodes %v", c.GetContainer(), c.GetCpus(), nodes)
		}
	}
	return text
}

// restText describes what a pod had before the journal began and does not get.
func restText(rest *journaletv1.RestOfResources) string {
	var all []string
	if rest.GetCpus() != "" {
		all = append(all, "CPUs "+rest.GetCpus())
	}
	for _, d := range rest.GetDevices() {
		all = append(all, strings.Join(d.GetIds(), ", ")+" of "+d.GetResource())
	}
	if len(all) == 0 {
		return ""
	}
	return "; it had " + strings.Join(all, ", ") + ", which no other pod gets until it ends"
}

// pendingPreemption describes an admission or a resize that waits until the victims have terminated.
func (d *Describer) pendingPreemption(what, uid, fullName string, victims []string) string {
	namespace, name, _ := strings.Cut(fullName, "/")
	d.Name(uid, namespace, name)
	s := fmt.Sprintf("%s of pod %s pending preemption", what, d.podRef(uid))
	for i, victim := range victims {
		if s += ", "; i == 0 {
			s += "preempts "
		}
		s += d.podRef(victim)
	}
	return s
}

func (d *Describer) resizeEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ResizeRequested:
		return "requested resize to " + demandText(k.ResizeRequested.GetDemand())
	case *journaletv1.Event_ResizeWithdrawn:
		return "withdrew the resize request"
	case *journaletv1.Event_ResizeDecided:
		return d.resizeDecided(k.ResizeDecided)
	case *journaletv1.Event_ResizePendingPreemption:
		r := k.ResizePendingPreemption
		return d.pendingPreemption("resize", r.GetUid(), r.GetFullName(), r.GetVictims())
	case *journaletv1.Event_ResizeStarted:
		return "resizing: containers run with other resources than allocated"
	case *journaletv1.Event_ResizeCompleted:
		return "resize completed"
	}
	return ""
}

func (d *Describer) resizeDecided(r *journaletv1.ResizeDecided) string {
	if r.GetAllocated() {
		return fmt.Sprintf("allocated resize of pod %s", d.podName(r.GetUid()))
	}
	return withMessage(fmt.Sprintf("resize of pod %s pending (%s)", d.podName(r.GetUid()), r.GetReason()), r.GetMessage())
}

func demandText(d *journaletv1.PodDemand) string {
	return fmt.Sprintf("cpu %dm, memory %s", d.GetMilliCpu(), Size(d.GetMemoryBytes()))
}

func (d *Describer) imageEvent(_ string, e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_ImagePullRequested:
		r := k.ImagePullRequested
		text := "requested image " + r.GetImage()
		if r.GetCredentialsChanged() {
			text = "requested image " + r.GetImage() + " again, as credentials have changed,"
		}
		if names := r.GetPullSecrets(); len(names) > 0 {
			text += " with pull secret " + strings.Join(names, ", ")
		}
		return text
	case *journaletv1.Event_ImagePullWithdrawn:
		return "withdrew the request for image " + k.ImagePullWithdrawn.GetImage()
	case *journaletv1.Event_ImagePullDecided:
		return d.imagePullDecided(k.ImagePullDecided)
	case *journaletv1.Event_PullProgressed:
		p := k.PullProgressed
		return fmt.Sprintf("pulling image %s for %s, %s so far", p.GetImage(), span(p.GetElapsed().AsDuration()),
			Size(p.GetBytes()))
	}
	return ""
}

func (d *Describer) imagePullDecided(a *journaletv1.ImagePullDecided) string {
	pod := d.podName(a.GetUid())
	if a.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		if a.GetAlreadyPresent() {
			return fmt.Sprintf("image %s was loaded by somebody, and is present for pod %s", a.GetImage(), pod)
		}
		pull := pullText(a.GetDuration().AsDuration(), a.GetBytes())
		return fmt.Sprintf("image %s present for pod %s%s", a.GetImage(), pod, pull)
	}
	reason := callError(a.GetError())
	if after := a.GetRetryAfter().AsDuration(); after > 0 {
		reason += ", back-off " + span(after)
	}
	return withMessage(fmt.Sprintf("failed to pull image %s for pod %s (%s)", a.GetImage(), pod, reason), a.GetMessage())
}

// pullText is how long a pull took and how large the image is, as far as it is known.
func pullText(took time.Duration, bytes int64) string {
	var parts []string
	if took > 0 {
		parts = append(parts, "pulled in "+span(took))
	}
	if bytes > 0 {
		parts = append(parts, Size(bytes))
	}
	return withReason("", strings.Join(parts, ", "))
}
