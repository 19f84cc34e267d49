package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// place is one container of one pod.
type place struct{ uid, container string }

// probing is what the probe driver knows of one container. A value is never changed, only replaced.
type probing struct {
	id    string
	kinds []journaletv1.ProbeKind
	// results are the last recorded results.
	results map[journaletv1.ProbeKind]bool
}

// foldProbes processes a record as the probe driver does.
func (g *engine) foldProbes(rec *journaletv1.Record) {
	if r := rec.GetFact().GetProbeResult(); r != nil {
		at := place{r.GetUid(), r.GetContainer()}
		if p := g.probed[at]; p.id == r.GetContainerId() && slices.Contains(p.kinds, r.GetKind()) {
			p.results = maps.Clone(p.results)
			p.results[r.GetKind()] = r.GetSuccess()
			g.probed[at] = p
		}
	}
	for _, e := range rec.GetStep().GetDecisions() {
		switch k := e.GetKind().(type) {
		case *journaletv1.Event_ProbesSet:
			g.setProbes(place{rec.GetActor().GetId(), k.ProbesSet.GetContainer()}, k.ProbesSet)
		case *journaletv1.Event_PodTerminated:
			maps.DeleteFunc(g.probed, func(at place, _ probing) bool { return at.uid == k.PodTerminated.GetUid() })
		}
	}
}

func (g *engine) setProbes(at place, s *journaletv1.ProbesSet) {
	p := g.probed[at]
	if p.id != s.GetContainerId() {
		p = probing{id: s.GetContainerId(), results: map[journaletv1.ProbeKind]bool{}}
	}
	if p.kinds = s.GetKinds(); len(p.kinds) == 0 {
		delete(g.probed, at)
		return
	}
	g.probed[at] = p
}

// reseedProbes gives the probe driver what it knew at the end of the last run, as at a start: from the states of
// pods, and from results that are in no state yet.
func (g *engine) reseedProbes() {
	g.probed = map[place]probing{}
	for _, rec := range g.core.Records() {
		g.foldProbes(rec)
	}
	open := g.probed
	g.probed = map[place]probing{}
	for _, uid := range g.names.uids {
		a := g.pod(uid)
		if a == nil {
			continue
		}
		for _, p := range a.Probed() {
			at := place{uid, p.Set.GetContainer()}
			g.setProbes(at, p.Set)
			for _, r := range p.Results {
				g.probed[at].results[r.GetKind()] = r.GetSuccess()
			}
			if open[at].id == p.Set.GetContainerId() {
				maps.Copy(g.probed[at].results, open[at].results)
			}
		}
	}
}

// succeedProbe records the success of a probe that has not succeeded yet, as in a world without faults. It returns
// false if there is no such probe.
func (g *engine) succeedProbe() (bool, error) {
	places := slices.SortedFunc(maps.Keys(g.probed), func(a, b place) int {
		return cmp.Or(cmp.Compare(g.names.aliasOf(a.uid), g.names.aliasOf(b.uid)), cmp.Compare(a.container, b.container))
	})
	for _, at := range places {
		p := g.probed[at]
		for _, kind := range p.kinds {
			if p.results[kind] || kind == journaletv1.ProbeKind_PROBE_KIND_LIVENESS {
				continue
			}
			return true, g.put(messages.Pod(at.uid), probeResult(at, p.id, kind, ""))
		}
	}
	return false, nil
}

// probeResult returns the driver's result of a probe; without a message it is a success.
func probeResult(at place, id string, kind journaletv1.ProbeKind, message string) *journaletv1.Event {
	return messages.NewEvent(&journaletv1.ProbeResult{
		Uid: at.uid, Container: at.container, ContainerId: id, Kind: kind, Success: message == "", Message: message,
	})
}

// probe records a result of a probe: "probe startup|liveness|readiness pod=<alias> [container=<name>] [id=<instance>]
// [fails=<why>]". The default id is the newest instance.
func (s *Scenario) probe(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	name := strings.ToUpper(d.CmdArgs[0].Key)
	kind := journaletv1.ProbeKind(journaletv1.ProbeKind_value["PROBE_KIND_"+name])
	if kind == 0 {
		return "", fmt.Errorf("no such probe")
	}
	at := place{uid, arg(d, "container", "main")}
	id := arg(d, "id", s.g.world.objectsOf(uid).newest(at.container).GetId())
	message := ""
	if d.HasArg("fails") {
		message = name[:1] + strings.ToLower(name[1:]) + " probe failed: " + cmp.Or(arg(d, "fails", ""), "it does")
	}
	return "", s.put(messages.Pod(uid), probeResult(at, id, kind, message))
}

func kindName(k journaletv1.ProbeKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "PROBE_KIND_"))
}

// probes describes which probes of a container run.
func probes(s *journaletv1.ProbesSet) string {
	text := "probes of " + s.GetContainer() + ":"
	for _, k := range s.GetKinds() {
		text += " " + kindName(k)
	}
	if len(s.GetKinds()) == 0 {
		text += " none"
	}
	return text
}
