package cloudevents

import (
	"encoding/json"
	"strconv"

	"github.com/journalet/journalet/messages"
)

const (
	specVersion = "1.0"
	jsonType    = "application/json"
	// typePrefix and typeVersion surround the event's name in a type. The version is the contract's version.
	typePrefix  = "io.journalet."
	typeVersion = ".v1"
)

// Event is one event of a journal. Seq, Epoch, Cause and Decision are extension attributes. Numbers are text:
// an Integer of CloudEvents has 32 bits.
type Event struct {
	SpecVersion string `json:"specversion"`
	// ID is the event's position, <epoch>.<seq>.<index>: the same whenever the event is read, and no other event of
	// Source has it.
	ID              string          `json:"id"`
	Source          string          `json:"source"`  // //journalet/<node>
	Type            string          `json:"type"`    // io.journalet.<event>.v1
	Subject         string          `json:"subject"` // the actor, as kind/id
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Seq             string          `json:"seq"`
	Epoch           string          `json:"epoch"`
	Cause           string          `json:"cause,omitempty"`    // the record that led to a decision
	Decision        string          `json:"decision,omitempty"` // a decision's id
	Data            json.RawMessage `json:"data"`
}

// New returns the CloudEvent of an event of a node. Its data must be encoded.
func New(node string, f messages.Flat) Event {
	e := Event{
		SpecVersion:     specVersion,
		ID:              f.Position().String(),
		Source:          "//journalet/" + node,
		Type:            typePrefix + f.Event + typeVersion,
		Subject:         f.Author,
		Time:            f.Time,
		DataContentType: jsonType,
		Seq:             strconv.FormatUint(f.Seq, 10),
		Epoch:           strconv.FormatUint(f.Epoch, 10),
		Decision:        f.ID,
		Data:            f.Data,
	}
	if f.Cause > 0 {
		e.Cause = strconv.FormatUint(f.Cause, 10)
	}
	return e
}
