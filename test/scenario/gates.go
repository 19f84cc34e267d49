package scenario

import (
	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// gates records the conditions of readiness gates: "gates pod=<alias> [<type>=<status> ...]".
func (s *Scenario) gates(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	r := &journaletv1.ReadinessGatesRead{Uid: uid}
	for _, a := range d.CmdArgs {
		if a.Key != "pod" {
			r.Conditions = append(r.Conditions, &journaletv1.ReadinessGateCondition{Type: a.Key, Status: a.Vals[0]})
		}
	}
	return "", s.put(messages.Pod(uid), messages.NewEvent(r))
}
