package probe

// verdict is a probe's result after its threshold.
type verdict uint8

const (
	undecided verdict = iota
	healthy
	unhealthy
)

// tally counts how often in a row a probe came out alike. It is a value without a world.
type tally struct {
	// successes and failures are the thresholds, at least 1.
	successes, failures int32
	last                verdict
	run                 int32
	// reported is what is known of the probe by those who decide. A liveness probe begins as healthy: that it is so is no news.
	reported verdict
}

// add counts one run; news tells whether the threshold is reached for another result than the one told.
func (t *tally) add(ok bool) (result verdict, news bool) {
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

// setReported notes that a result was told.
func (t *tally) setReported(result verdict) { t.reported = result }
