// Package probe runs the probes that ProbesSet decisions name, counts their results in a row, and tells a ProbeResult when
// the result that follows from the threshold is not the one told last. It may not act on what it finds: what a result means
// is the pod's to decide. It holds one scheduler goroutine and as many workers as probes run right now, up to a bound in each
// of two lanes, and nothing else for each probe than an entry in a heap; after their first run probes run on a grid of
// moments that they share. Start reading at driver.go (what is to be run), then schedule.go (when), lanes.go (before whom, and
// how those that hang are kept apart), work.go (one run and what follows from it), tally.go (counting) and, for the four
// kinds of handlers, exec.go, http.go and net.go.
package probe
