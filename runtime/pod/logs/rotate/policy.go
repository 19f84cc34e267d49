package rotate

import (
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/pod/logs"
)

const (
	// temporary is what the name of an archive ends in until it is complete (kubelet: the same).
	temporary = ".tmp"
	// maxAhead is how much later than now the newest rotated file may be named. One that is later was not named by an
	// agent whose clock ran within a day of ours, and the next ones do not follow it.
	maxAhead = 24 * time.Hour
)

// Policy bounds the files of one log.
type Policy struct {
	// MaxBytes is the size at which a log is rotated (kubelet default: 10 MiB).
	MaxBytes int64
	// MaxFiles is how many files a log has at most, with the live one (kubelet default: 5). At least 2.
	MaxFiles int
}

// Steps are what is done with the files of one log.
type Steps struct {
	// Left are files that a crash has left, or that are being compressed: they are for who compresses.
	Left []string
	// Excess are the oldest files, which are too many.
	Excess []string
	// Rename is the name for the live file; empty if it stays.
	Rename string
	// Compress are rotated files to be compressed, oldest first.
	Compress []string
}

// Plan returns what is to be done with the log base, whose regular files are names. rotate: the live one is rotated.
// The newest rotated file stays as it is, since the runtime and log shippers may still have it open.
func Plan(base string, names []string, rotate bool, now time.Time, p Policy) Steps {
	var s Steps
	var rotated []string
	names = slices.Sorted(slices.Values(names))
	for _, name := range names {
		whole, left := strings.CutSuffix(name, temporary)
		if _, packed, ok := logs.Rotated(base, whole); !ok {
			continue
		} else if _, both := slices.BinarySearch(names, whole+logs.Packed); left || both && !packed {
			s.Left = append(s.Left, name)
			continue
		}
		rotated = append(rotated, name)
	}
	room := p.MaxFiles - 1
	if rotate {
		room--
		s.Rename = base + "." + nextStamp(base, rotated, now)
	}
	excess := max(0, len(rotated)-max(0, room))
	s.Excess = rotated[:excess]
	rotated = rotated[excess:]
	if !rotate && len(rotated) > 0 {
		rotated = rotated[:len(rotated)-1]
	}
	for _, name := range rotated {
		if !strings.HasSuffix(name, logs.Packed) {
			s.Compress = append(s.Compress, name)
		}
	}
	return s
}

// nextStamp returns the stamp of the next rotated file: now, in UTC, and later than the stamps of all other files.
func nextStamp(base string, rotated []string, now time.Time) string {
	at := now.UTC().Truncate(time.Second)
	for _, name := range slices.Backward(rotated) {
		stamp, _, _ := logs.Rotated(base, name)
		newest, err := time.Parse(logs.StampLayout, stamp)
		if err != nil || newest.After(at.Add(maxAhead)) {
			continue
		}
		if !newest.Before(at) {
			at = newest.Add(time.Second)
		}
		break
	}
	return at.Format(logs.StampLayout)
}
