// Package events writes docs/EVENTS.md: the JSON form of each event, from the contract's files and from recorded
// histories. Its test fails when the page is out of date; `make docs` writes it. Start with page.go.
package events
