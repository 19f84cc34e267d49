package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Ends returns the times of the first and of the last record; zero times for an empty journal. What is said to be long
// ago is so before the last record: a journal may be read weeks later, on another machine.
func Ends(ctx context.Context, r Reader) (first, last time.Time, err error) {
	from, to := r.Bounds()
	if from > to {
		return time.Time{}, time.Time{}, nil
	}
	begin, err := next(ctx, r, from)
	if err != nil || begin == nil {
		return time.Time{}, time.Time{}, err
	}
	end := begin
	// A bundle of some pods may lack the last records: that which is there and the last is between low and high.
	for low, high, at := begin.GetSeq(), to, to; low < high; at = high - (high-low)/2 {
		rec, err := next(ctx, r, at)
		if err != nil {
			return time.Time{}, time.Time{}, err
		}
		if rec == nil {
			high = at - 1
		} else {
			low, end = rec.GetSeq(), rec
		}
	}
	return begin.GetTime().AsTime(), end.GetTime().AsTime(), nil
}

var errFound = errors.New("found")

// next returns the first record from seq on, nil for none: records may be damaged, or missing in a bundle of some pods.
func next(ctx context.Context, r Reader, seq uint64) (*journaletv1.Record, error) {
	rec, err := r.Get(ctx, seq)
	if !errors.Is(err, ErrNoRecord) && !errors.Is(err, ErrGone) {
		return rec, err
	}
	err = r.Read(ctx, seq, 0, func(e Entry) (err error) {
		if rec, err = e.Record(); err == nil {
			err = errFound
		}
		return err
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return rec, err
}

// SeqAt returns the first record at or after a time, the last one + 1 for none. Records carry the machine's clock: if
// it was set back, more than one record qualifies, and SeqAt returns any of them.
func SeqAt(ctx context.Context, r Reader, t time.Time) (uint64, error) {
	low, last := r.Bounds()
	for high := last + 1; low < high; {
		middle := low + (high-low)/2
		rec, err := next(ctx, r, middle)
		switch {
		case err != nil:
			return 0, err
		case rec == nil:
			high = middle
		case rec.GetTime().AsTime().Before(t):
			low = rec.GetSeq() + 1
		default:
			high = middle
		}
	}
	return low, nil
}

// ParseMoment returns the record that a person names by its number ("1042"), by a time in RFC 3339, or by a duration
// before the journal's last record ("10m", "0s" for that one): for a time the first record at or after it.
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
		if ago == 0 {
			_, end := r.Bounds()
			return end, nil
		}
		_, last, err := Ends(ctx, r)
		if err != nil {
			return 0, err
		}
		t = last.Add(-ago)
	}
	return SeqAt(ctx, r, t)
}
