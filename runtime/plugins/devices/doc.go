// Package devices drives device plugins (API v1beta1): it serves the socket that they register on, follows their lists
// of devices, and calls them. What they offer becomes facts; actors/devices decides which pod gets what. Plugins are
// untrusted: their lists, ids and answers are bounded, each call has a deadline, and at most one fact a second is
// recorded of each plugin. Start with driver.go, then follow.go and calls.go.
package devices
