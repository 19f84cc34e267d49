package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// nodeEviction is how the nodes of scenarios defend themselves: the kubelet's defaults, but for the grace period.
var nodeEviction = &journaletv1.NodeEviction{
	TransitionPeriod: durationpb.New(5 * time.Minute), MaxPodGrace: durationpb.New(20 * time.Second),
}

var layouts = map[string]journaletv1.FilesystemLayout{
	"one":   journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_ONE,
	"own":   journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_OWN_IMAGES,
	"split": journaletv1.FilesystemLayout_FILESYSTEM_LAYOUT_SPLIT,
}

// pressure records which thresholds are met and what pods use: "pressure [layout=one|own|split] [earlier]". With
// earlier, it was measured before the last request. A threshold is a line as "met <signal> <threshold> <available>
// [soft] [waits]"; a threshold that waits does not act. A pod is a line as "pod <name> [memory=<bytes>] [local=<bytes>]
// [layer=<bytes>] [processes=<n>] [own=<used>:<request>] [over=<container>:<used>:<request>]".
func (s *Scenario) pressure(d *datadriven.TestData) (string, error) {
	o := &journaletv1.PressureObserved{Layout: layouts[arg(d, "layout", "one")]}
	if !d.HasArg("earlier") {
		o.RequestId = s.g.core.Decider(messages.Node).(*node.Actor).Node().GetPressure().GetRequestId()
	}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		if words[0] == "pod" {
			u, err := s.usage(words[1:])
			if err != nil {
				return "", err
			}
			o.Pods = append(o.Pods, u)
			continue
		}
		threshold, available := resource.MustParse(words[2]), resource.MustParse(words[3])
		soft := strings.Contains(line, " soft")
		waits := strings.Contains(line, " waits")
		o.Thresholds = append(o.Thresholds, &journaletv1.ThresholdMet{
			Signal: words[1], Soft: soft, Threshold: threshold.Value(), Available: available.Value(), Capacity: 8 << 30,
			Quantity: words[2], Acting: !waits, Reclaiming: !waits,
			SampledAt: timestamppb.New(s.g.now), Since: timestamppb.New(s.g.now),
		})
	}
	return "", s.put(messages.Node, messages.NewEvent(o))
}

func (s *Scenario) usage(words []string) (*journaletv1.PodUsage, error) {
	uid, err := s.uidOf(words[0])
	if err != nil {
		return nil, err
	}
	u := &journaletv1.PodUsage{Uid: uid}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if key == "over" {
			parts := strings.Split(value, ":")
			u.Containers = append(u.Containers, &journaletv1.ContainerExcess{
				Container: parts[0], Used: parts[1], Request: parts[2],
			})
			continue
		}
		if key == "own" {
			used, request, _ := strings.Cut(value, ":")
			u.OwnRequest = &journaletv1.PodRequest{Name: words[0], Used: used, Request: request}
			continue
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, err
		}
		switch key {
		case "memory":
			u.MemoryBytes = q.Value()
		case "local":
			u.LocalBytes = q.Value()
		case "layer":
			u.LayerBytes = q.Value()
		case "processes":
			u.Processes = q.Value()
		default:
			return nil, fmt.Errorf("no such usage: %s", w)
		}
	}
	return u, nil
}

// uidOf returns the UID of the pod with a name.
func (s *Scenario) uidOf(name string) (string, error) {
	for _, uid := range s.g.names.uids {
		if s.g.names.aliasOf(uid) == name {
			return uid, nil
		}
	}
	return "", fmt.Errorf("there is no pod %s", name)
}

// pressed describes decisions about pressure.
func (n *names) pressed(e *journaletv1.Event) string {
	switch k := e.GetKind().(type) {
	case *journaletv1.Event_NodePressureDecided:
		return fmt.Sprintf("conditions %v", k.NodePressureDecided.GetConditions())
	case *journaletv1.Event_EvictionProgressed:
		p := k.EvictionProgressed
		text := "eviction " + strings.ToLower(strings.TrimPrefix(p.GetStage().String(), "EVICTION_STAGE_"))
		if p.GetSignal() != "" {
			text += " for " + p.GetSignal()
		}
		for _, what := range p.GetWaitingFor() {
			text += ", waits for " + n.aliasOf(what)
		}
		if p.GetImages() {
			text += ", waits for images"
		}
		return text
	case *journaletv1.Event_PodReclaimRequested:
		if k.PodReclaimRequested.GetContainers() {
			return "reclaim pod/" + n.aliasOf(k.PodReclaimRequested.GetUid()) + " with containers"
		}
		return "reclaim pod/" + n.aliasOf(k.PodReclaimRequested.GetUid())
	case *journaletv1.Event_PodReclaimed:
		return "reclaimed"
	case *journaletv1.Event_ImageReclaimRequested:
		return "reclaim images"
	case *journaletv1.Event_ImagesReclaimed:
		return fmt.Sprintf("reclaimed %d images, %d bytes", k.ImagesReclaimed.GetImages(), k.ImagesReclaimed.GetBytes())
	}
	return n.devices(e)
}
