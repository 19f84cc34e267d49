// Package fakeapi is an API server in memory, for tests of what talks to one. It holds objects as the JSON that clients
// send, and does what the drivers of cluster mode depend on: list and watch with bookmarks and initial events, field
// selectors, patches with a UID as precondition, subresources, graceful deletion. It validates and defaults next to
// nothing. Server.Faults makes it answer wrongly, late or not at all.
//
// Start with server.go.
package fakeapi
