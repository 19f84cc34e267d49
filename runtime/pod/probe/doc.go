// Package probe runs the probes of ProbesSet decisions, counts equal results in a row, and reports a ProbeResult when
// the result that reached its threshold differs from the last reported one, and for a probe's first warning. It does
// not act on results: the pod's actor decides what follows. It has one scheduler goroutine and one worker for each
// probe that runs now, up to a bound in each of two lanes. A waiting probe is only an entry in a heap. After their
// first run, probes share a grid of times.
// Start reading at driver.go (which probes run), then schedule.go (when), lanes.go (their order, and how hanging probes
// are kept apart), work.go (one run and its report), tally.go (thresholds) and, for the four kinds of handlers,
// exec.go, http.go and net.go.
package probe
