package probe

// verdict is a probe's result that reached its threshold.
type verdict uint8

const (
	undecided verdict = iota
	healthy
	unhealthy
)

// tally counts equal results of a probe in a row. It is pure.
type tally struct {
	// successes and failures are the thresholds, at least 1.
	successes, failures int32
	last                verdict
	run                 int32
	// reported is the last reported verdict. A liveness probe begins as healthy, which is not reported.
	reported verdict
	// warned means that a warning was reported.
	warned bool
}

// add counts one run. changed reports whether its result reached its threshold and differs from the reported verdict.
func (t *tally) add(ok bool) (result verdict, changed bool) {
	result, need := unhealthy, t.failures
	if ok {
		result, need = healthy, t.successes
	}
	if t.last != result {
		t.last, t.run = result, 0
	}
	t.run = min(t.run+1, need)
	return result, t.run >= need && t.reported != result
}

// firstWarning reports whether a warning is to be reported although the result stays what it is: healthy.
func (t *tally) firstWarning() bool { return t.reported == healthy && !t.warned }
