package history

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"
)

// Ends returns the times of the first and of the last record; zero times for an empty journal. What is said to be long
// ago is so before the last record: a journal may be read weeks later, on another machine.
func Ends(ctx context.Context, r Reader) (first, last time.Time, err error) {
	from, to := r.Bounds()
	if from > to {
		return time.Time{}, time.Time{}, nil
	}
	for at, seq := range map[*time.Time]uint64{&first: from, &last: to} {
		rec, err := r.Get(ctx, seq)
		if err != nil {
			return time.Time{}, time.Time{}, err
		}
		*at = rec.GetTime().AsTime()
	}
	return first, last, nil
}

// SeqAt returns the first record at or after a time, the last one + 1 for none. Records carry the machine's clock: if
// it was set back, more than one record qualifies, and SeqAt returns any of them.
func SeqAt(ctx context.Context, r Reader, t time.Time) (uint64, error) {
	first, last := r.Bounds()
	if last < first {
		return first, nil
	}
	var failed error
	n := sort.Search(int(last-first+1), func(i int) bool {
		if failed != nil {
			return true
		}
		rec, err := r.Get(ctx, first+uint64(i))
		switch {
		case errors.Is(err, ErrNoRecord):
			return false // damaged: search behind it
		case err != nil:
			failed = err
			return true
		}
		return !rec.GetTime().AsTime().Before(t)
	})
	return first + uint64(n), failed
}

// ParseMoment returns the record that a person names by its number ("1042"), by a time in RFC 3339, or by a duration
// before the journal's last record ("10m"): for a time the first record at or after it.
func ParseMoment(ctx context.Context, r Reader, s string) (uint64, error) {
	if seq, err := strconv.ParseUint(s, 10, 64); err == nil {
		return seq, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		ago, derr := time.ParseDuration(s)
		if derr != nil || ago < 0 {
			return 0, fmt.Errorf("%q is neither the number of a record, nor a time such as %s, nor a duration such as 10m",
				s, time.DateOnly+"T15:04:05Z")
		}
		_, last, err := Ends(ctx, r)
		if err != nil {
			return 0, err
		}
		t = last.Add(-ago)
	}
	return SeqAt(ctx, r, t)
}
