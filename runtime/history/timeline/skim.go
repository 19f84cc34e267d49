package timeline

import (
	"bytes"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/journalet/journalet/runtime/history"
)

// Numbers of fields of Record and of its fact that skim reads without decoding the record.
const (
	timeField, factField = 3, 6
	agentFacts           = 5  // the events about the agent itself are 1 to 5
	healthFact           = 10 // runtime_health_changed
)

// skim reports whether the picture of certain pods can do without a record, and returns the record's time. It decides
// by the bytes, which is faster than decoding: a record about a pod holds its UID or its name, one about a pull the
// name of the image actor.
func (b *builder) skim(e history.Entry) (at time.Time, skip bool) {
	if len(b.o.Pods) == 0 {
		return time.Time{}, false
	}
	at, about, ok := head(e.Bytes)
	if !ok || about > 0 && about <= agentFacts || about == healthFact || bytes.Contains(e.Bytes, pulls) {
		return at, false
	}
	for _, wanted := range b.o.Pods {
		_, name, found := strings.Cut(wanted, "/")
		if !found {
			name = wanted
		}
		if bytes.Contains(e.Bytes, []byte(name)) {
			return at, false
		}
	}
	for uid := range b.choice.uids {
		if bytes.Contains(e.Bytes, []byte(uid)) {
			return at, false
		}
	}
	return at, true
}

// pulls is in every record about the call of a pull: the requester, or the id of its intent.
var pulls = []byte("image/0")

// head returns the time of an encoded record and, of a fact, the number of its event.
func head(b []byte) (at time.Time, about protowire.Number, ok bool) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return at, 0, false
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return at, 0, false
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return at, 0, false
		}
		b = b[n:]
		switch number {
		case timeField:
			at = timestamp(value)
		case factField:
			about, _, _ = protowire.ConsumeTag(value)
		}
	}
	return at, about, !at.IsZero()
}

// timestamp decodes a google.protobuf.Timestamp.
func timestamp(b []byte) time.Time {
	var parts [3]uint64
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.VarintType || number > 2 {
			return time.Time{}
		}
		v, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return time.Time{}
		}
		parts[number], b = v, b[n+m:]
	}
	return time.Unix(int64(parts[1]), int64(parts[2])).UTC()
}

// pass notes a record that the picture can do without.
func (b *builder) pass(seq uint64, t time.Time) {
	at := b.clock.place(seq, t)
	b.follow(&Event{Seq: seq, Time: t, At: millis(at), Because: -1, Group: -1})
	b.last, b.lastTime, b.lastAt = seq, t, millis(at)
}
