package envfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// MaxFileBytes bounds a file of variables, as a ConfigMap is bounded. A line has less than 64 KiB, as in the kubelet.
const MaxFileBytes = 1 << 20

// The mistakes of a file. None of them shows what is in it.
var (
	errNoEquals   = errors.New("there is no =; write NAME='value'")
	errNoName     = errors.New("there is no name before =; write NAME='value'")
	errSpace      = errors.New("there is white space before =; remove it")
	errUnquoted   = errors.New("the value is not in single quotes; write NAME='value'")
	errBehind     = errors.New("there is more than a comment behind the closing quote; a value cannot hold a quote")
	errUnclosed   = errors.New("the quote that begins here is not closed")
	errLineLength = fmt.Errorf("the line has %d bytes or more; shorten it", bufio.MaxScanTokenSize)
)

// Find returns the value of the first variable with this name; empty if the file has no such variable. Each value is in
// single quotes, may have several lines, and is literal. White space between = and the quote makes the value empty, as
// in a shell. An error names the line and shows nothing of the file. What follows the variable is not read, so a
// mistake there causes no error.
func Find(data []byte, name string) (string, error) {
	r := reader{lines: bufio.NewScanner(bytes.NewReader(data))}
	for r.next() {
		line := strings.TrimLeft(r.lines.Text(), blanks)
		if line == "" || line[0] == '#' {
			continue
		}
		found, rest, err := assignment(line)
		if err != nil {
			return "", r.at(r.number, err)
		}
		value, err := r.value(rest)
		if err != nil {
			return "", err
		}
		if found == name {
			return value, nil
		}
	}
	if r.lines.Err() != nil {
		return "", r.at(r.number+1, errLineLength)
	}
	return "", nil
}

// blanks separate words within a line.
const blanks = " \t"

// reader counts the lines that it has read.
type reader struct {
	lines  *bufio.Scanner
	number int
}

func (r *reader) next() bool {
	more := r.lines.Scan()
	if more {
		r.number++
	}
	return more
}

func (r *reader) at(line int, err error) error { return fmt.Errorf("line %d: %w", line, err) }

// assignment splits NAME=rest.
func assignment(line string) (name, rest string, err error) {
	name, rest, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", errNoEquals
	case strings.TrimRight(name, blanks) == "":
		return "", "", errNoName
	case strings.TrimRight(name, blanks) != name:
		return "", "", errSpace
	}
	return name, rest, nil
}

// value returns the value that begins with rest, and reads on to its closing quote.
func (r *reader) value(rest string) (string, error) {
	begin := r.number
	if rest != strings.TrimLeft(rest, blanks) {
		return "", nil
	}
	rest, quoted := strings.CutPrefix(rest, "'")
	if !quoted {
		return "", r.at(begin, errUnquoted)
	}
	var value strings.Builder
	for {
		text, behind, closed := strings.Cut(rest, "'")
		value.WriteString(text)
		if closed {
			if behind = strings.TrimLeft(behind, blanks); behind != "" && behind[0] != '#' {
				return "", r.at(r.number, errBehind)
			}
			return value.String(), nil
		}
		value.WriteByte('\n')
		if !r.next() {
			if r.lines.Err() != nil {
				return "", r.at(r.number+1, errLineLength)
			}
			return "", r.at(begin, errUnclosed)
		}
		rest = r.lines.Text()
	}
}
