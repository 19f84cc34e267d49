package events

import (
	"encoding/json"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
)

// The kubelet's rules against floods of events (client-go: tools/record, whose package brings 4 MiB with it).
const (
	// alikeMost events that differ in their message alone, within alikeFor of each other, are not combined.
	alikeMost = 10
	alikeFor  = 10 * time.Minute
	// objectBurst events of an object are sent, then one in objectEvery.
	objectBurst = 25
	objectEvery = 5 * time.Minute
	// remembered bounds what is kept of each rule.
	remembered = 4096

	combined = "(combined from similar events): "
)

// correlator combines events and counts repetitions. It uses only the times of the events, so that a queue that is sent
// late does not count as a flood.
type correlator struct {
	alike   *lru.Cache // by all but the message: *similar
	seen    *lru.Cache // by all: seen
	objects *lru.Cache // by the object: *rate.Limiter
}

type similar struct {
	messages map[string]bool
	last     time.Time
}

// seen is an event that the API server has.
type seen struct {
	name  string
	first metav1.Time
	count int32
	text  string
}

func newCorrelator() *correlator {
	return &correlator{alike: lru.New(remembered), seen: lru.New(remembered), objects: lru.New(remembered)}
}

// outcome is what is to be sent of an event.
type outcome struct {
	event *corev1.Event
	// patch is set for an event that the API server has: of its count, last time and message.
	patch []byte
	key   string
}

// correlate returns what to send of an event, false for nothing. Call sent once the API server has it.
func (c *correlator) correlate(e *corev1.Event) (outcome, bool) {
	at := e.LastTimestamp.Time
	ref := &e.InvolvedObject
	object := strings.Join([]string{ref.Kind, ref.Namespace, ref.Name, string(ref.UID)}, "\x00")
	alike := strings.Join([]string{object, ref.FieldPath, e.Type, e.Reason}, "\x00")
	key := alike + "\x00" + e.Message
	if c.flood(alike, e.Message, at) {
		key, e.Message = alike, combined+e.Message
		e.Message = e.Message[:min(len(e.Message), maxMessage)]
	}
	out := outcome{event: e, key: key}
	if v, ok := c.seen.Get(key); ok {
		was := v.(seen)
		e.Name, e.FirstTimestamp, e.Count = was.name, was.first, was.count+1
		patch := map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp}
		if was.text != e.Message {
			patch["message"] = e.Message
		}
		out.patch, _ = json.Marshal(patch)
	}
	v, ok := c.objects.Get(object)
	if !ok {
		v = rate.NewLimiter(rate.Every(objectEvery), objectBurst)
		c.objects.Add(object, v)
	}
	return out, v.(*rate.Limiter).AllowN(at, 1)
}

// flood reports whether an event is one of many that differ in their message alone.
func (c *correlator) flood(alike, message string, at time.Time) bool {
	v, ok := c.alike.Get(alike)
	s, _ := v.(*similar)
	if !ok || at.Sub(s.last) > alikeFor {
		s = &similar{messages: map[string]bool{}}
		c.alike.Add(alike, s)
	}
	s.last = at
	if s.messages[message] {
		return len(s.messages) >= alikeMost
	}
	if len(s.messages) >= alikeMost-1 {
		return true
	}
	s.messages[message] = true
	return false
}

// sent remembers an event that the API server has.
func (c *correlator) sent(o outcome) {
	c.seen.Add(o.key, seen{o.event.Name, o.event.FirstTimestamp, o.event.Count, o.event.Message})
}
