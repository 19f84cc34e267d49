// Package clock is where drivers get time from, and what they wait with: the machine's clock (Real), a clock that a
// test moves (Manual), or the virtual time of the simulation (Virtual). It knows no driver. Start at Clock; wait.go has
// locks, bells and groups.
package clock
