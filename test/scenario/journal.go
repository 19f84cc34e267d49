package scenario

import (
	"time"

	"fmt"
	"strconv"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// Journal returns the records so far as a journal with its manifests, each record with the hash of the one before.
func (s *Scenario) Journal() (*history.Memory, error) {
	m := &history.Memory{Name: messages.Token(s.started.GetConfig().GetNodeName()), Manifests: s.g.names.canonical}
	var hash []byte
	for _, rec := range s.g.core.Records() {
		rec = proto.CloneOf(rec)
		rec.PreviousHash = hash
		b, err := messages.Encode(rec)
		if err != nil {
			return nil, fmt.Errorf("the journal of the scenario: %w", err)
		}
		hash, m.Records = messages.Hash(b), append(m.Records, rec)
	}
	return m, nil
}

// quarantine records that a pod's actor is quarantined because it failed on a record. The engine has no actor that
// fails: nothing may happen to the pod afterwards.
func (s *Scenario) quarantine(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	ref := messages.Pod(uid)
	last := s.g.core.Records()
	cause, err := strconv.ParseUint(arg(d, "cause", strconv.Itoa(len(last))), 10, 64)
	if err != nil {
		return "", err
	}
	return "", s.put(ref, messages.NewEvent(&journaletv1.Quarantined{
		Kind: ref.KindName(), Id: uid, Cause: cause, Code: journaletv1.DecisionError_DECISION_ERROR_PANIC,
		Message: arg(d, "message", "panic"),
	}))
}

// Now returns the scenario's time of day.
func (s *Scenario) Now() time.Time { return s.g.now }
