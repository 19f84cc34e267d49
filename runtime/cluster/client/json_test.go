package client

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestAValueEndsWhereItEndsHoweverItArrives reads values whole, and byte by byte: a string, an escape and a number
// may be cut anywhere.
func TestAValueEndsWhereItEndsHoweverItArrives(t *testing.T) {
	for _, value := range []string{
		`{}`, `[]`, `""`, `"a"`, `"\\"`, `"\""`, `"\u0022"`, `12`, `-1.5e3`, `true`, `null`,
		`{"a":"}","b":[{"c":"\\\""},1,"]"]}`, `[[],[{}],"[",{"a":{}}]`, `"` + strings.Repeat(`\\`, 100) + `"`,
	} {
		for _, after := range []string{",x", "]x", "}x", " \n,x"} {
			for how, through := range map[string]func(io.Reader) io.Reader{
				"whole":        func(r io.Reader) io.Reader { return r },
				"byte by byte": iotest.OneByteReader,
				"in halves":    iotest.HalfReader,
			} {
				r := bufio.NewReaderSize(through(strings.NewReader(" \t"+value+after)), 16)
				got, size, err := skim(r, []byte("before"), 1<<20, 1<<20)
				rest, _ := io.ReadAll(r)
				if string(got) != "before"+value || size != int64(len(value)) || err != nil || string(rest) != after {
					t.Errorf("%s, %s: read %q (%d bytes), error %v, left %q", value+after, how, got, size, err, rest)
				}
				r = bufio.NewReaderSize(through(strings.NewReader(value)), 16)
				if value[0] != '"' && value[0] != '{' && value[0] != '[' {
					continue // a number ends with what follows it
				}
				if _, _, err := skim(r, nil, 1<<20, int64(len(value))-1); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("%s, %s: beyond the limit: %v", value, how, err)
				}
			}
		}
	}
	for text, due := range map[string]error{
		"": io.EOF, "  ": io.EOF, `{"a":`: io.ErrUnexpectedEOF, `"a\`: io.ErrUnexpectedEOF, `12`: io.ErrUnexpectedEOF,
	} {
		if _, _, err := skim(bufio.NewReader(strings.NewReader(text)), nil, 1<<20, 1<<20); !errors.Is(err, due) {
			t.Errorf("%q: %v, want %v", text, err, due)
		}
	}
}
