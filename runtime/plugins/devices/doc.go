// Package devices drives device plugins (API v1beta1): it serves the socket on which they register, follows their lists
// of devices, and calls them. What they offer becomes facts; which pod gets what is decided elsewhere (actors/devices).
// A plugin is hostile: its lists, ids and answers are bounded, each call has a deadline, and at most one fact a second
// is recorded of it. Start with driver.go, then follow.go and calls.go.
package devices
