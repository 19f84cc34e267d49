// Package promises compares what the code offers with what each release promised to its users: commands, flags, output,
// events, subjects, metrics. The lists are in released, one directory a release; docs/COMPATIBILITY.md is the page for
// users. It is imported by tests alone. Start reading at promises.go.
package promises
