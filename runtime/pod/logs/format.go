package logs

import (
	"bytes"
	"time"
)

const (
	// maxHeadBytes bounds what precedes the text of a record: a time of at most 35 bytes, the stream, and tags.
	maxHeadBytes = 128
	// secondsBytes is the length of a time up to its seconds, 2006-01-02T15:04:05.
	secondsBytes = 19
	// fractionDigits is how many digits of a second are printed, as the kubelet does.
	fractionDigits = 9
)

// head is what precedes the text of a record: "<time> <stream> <tags> ".
type head struct {
	time    []byte
	stderr  bool
	partial bool // the line continues in the next record of the stream
	size    int
}

// parseHead parses the head at the begin of b. It returns false if b does not begin with one; whole reports whether b
// has enough bytes to know.
func parseHead(b []byte) (h head, ok, whole bool) {
	b = b[:min(len(b), maxHeadBytes)]
	whole = len(b) == maxHeadBytes
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		b, whole = b[:n+1], true
	}
	space := bytes.IndexByte(b, ' ')
	if space < 0 {
		return h, false, whole
	}
	h.time = b[:space]
	if !isTime(h.time) {
		return h, false, whole
	}
	rest := b[space+1:]
	switch {
	case bytes.HasPrefix(rest, []byte("stdout ")):
	case bytes.HasPrefix(rest, []byte("stderr ")):
		h.stderr = true
	default:
		return h, false, whole
	}
	rest = rest[len("stdout "):]
	tags := bytes.IndexByte(rest, ' ')
	if tags < 0 {
		// A record without text may end after its tags.
		if tags = bytes.IndexByte(rest, '\n'); tags <= 0 {
			return h, false, whole
		}
		h.size = len(b) - len(rest) + tags
	} else {
		h.size = len(b) - len(rest) + tags + 1
	}
	// Tags are separated by colons; the first one is F or P.
	if tags == 0 || tags > 1 && rest[1] != ':' {
		return h, false, whole
	}
	h.partial = rest[0] == 'P'
	return h, h.partial || rest[0] == 'F', whole
}

// isTime reports whether b has the shape of a time in RFC 3339.
func isTime(b []byte) bool {
	return len(b) > secondsBytes && b[4] == '-' && b[7] == '-' && b[10] == 'T' && b[13] == ':' && b[16] == ':'
}

// nanoseconds returns the time in b, in nanoseconds since 1970, and whether b is one.
func nanoseconds(b []byte) (int64, bool) {
	if !isTime(b) || b[len(b)-1] != 'Z' {
		return otherTime(b)
	}
	year, month, day := digits(b[0:4]), digits(b[5:7]), digits(b[8:10])
	hour, minute, second := digits(b[11:13]), digits(b[14:16]), digits(b[17:19])
	fraction := b[secondsBytes : len(b)-1]
	if min(year, month, day, hour, minute, second) < 0 || month < 1 || month > 12 || year < 1678 || year > 2261 ||
		len(fraction) == 1 || len(fraction) > 1+fractionDigits || len(fraction) > 0 && fraction[0] != '.' {
		return otherTime(b)
	}
	nanos := int64(0)
	for i := range fractionDigits {
		nanos *= 10
		if i+1 < len(fraction) {
			c := fraction[i+1]
			if c < '0' || c > '9' {
				return otherTime(b)
			}
			nanos += int64(c - '0')
		}
	}
	return (days(year, month, day)*86400+int64(hour*3600+minute*60+second))*int64(time.Second) + nanos, true
}

// otherTime is nanoseconds of a time with an offset, which runtimes write on hosts that are not at UTC.
func otherTime(b []byte) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, string(b))
	return t.UnixNano(), err == nil
}

// digits returns the number in b, -1 if there is another character.
func digits(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// days returns the days since 1970-01-01. A year begins in March here, so that a leap day is its last one.
func days(year, month, day int) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	return int64(365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468)
}

// appendTime appends a time with nine digits of its second, as the kubelet prints it.
func appendTime(out, b []byte) []byte {
	out = append(out, b[:secondsBytes]...)
	zone, n := b[secondsBytes:], 0
	out = append(out, '.')
	if zone[0] == '.' {
		for zone = zone[1:]; len(zone) > 0 && zone[0] >= '0' && zone[0] <= '9'; zone = zone[1:] {
			if n < fractionDigits {
				out = append(out, zone[0])
				n++
			}
		}
	}
	for ; n < fractionDigits; n++ {
		out = append(out, '0')
	}
	return append(out, zone...)
}
