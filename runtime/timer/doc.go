// Package timer turns TimerSet decisions into TimerFired facts. It holds no decision: what a firing
// means is for the actor that set the timer. Start with driver.go.
package timer
