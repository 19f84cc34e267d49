// Package events writes the events of pods and of the Node to the API server (ADR 055). They follow from stored
// records, so nothing is recorded for them. Start with derive.go, which is pure: the events of a record, in the
// kubelet's reasons and messages. driver.go sends them, cursor.go says from where on after a crash.
package events
