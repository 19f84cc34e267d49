// Package cloudevents gives events of the journal the form of CNCF CloudEvents 1.0, in its JSON format. It is pure; see
// New.
package cloudevents
