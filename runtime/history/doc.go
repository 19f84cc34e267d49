// Package history reads back what was recorded. Reader is a journal that is only read, wherever it is; the packages
// below explain one: describe puts events into words, and others give causes, replay, export and draw.
//
// Nothing here touches a runtime, a network or a journal's files: only open, which opens them to read, imports the
// bus. So a journal of another machine can be examined on a laptop, and reading one never changes it. Start with
// history.go.
package history
