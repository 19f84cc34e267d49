// Package timer turns TimerSet decisions into TimerFired facts. It takes no decision: the actor that
// set the timer knows what it is for. Start with driver.go.
package timer
