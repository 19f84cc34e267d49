package envfile

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFileIsReadAsByTheKubelet(t *testing.T) {
	long := strings.Repeat("x", bufio.MaxScanTokenSize)
	for _, c := range []struct {
		file, want string
		err        error
		line       int
	}{
		{"A='1'", "1", nil, 0},
		{" \tA='1'\nA='2'\n", "1", nil, 0},
		{"# A='0'\n\n  \nB='2'\nA='x # y' # comment\n", "x # y", nil, 0},
		{"A='$HOME \\n \"q\" = ü'", "$HOME \\n \"q\" = ü", nil, 0},
		{"A='1\n\n  2 \n'\nB='x'", "1\n\n  2 \n", nil, 0},
		{"A='1\r\n2'\r\n", "1\n2", nil, 0},
		{"A=''", "", nil, 0},
		{"A= '1'", "", nil, 0},
		{"A=\t", "", nil, 0},
		{"B='1'", "", nil, 0},
		{"", "", nil, 0},
		{"A='1'\nbroken", "1", nil, 0},
		{"B='x\nA=1'", "", nil, 0},
		{"\nbroken\nA='1'", "", errNoEquals, 2},
		{"='1'", "", errNoName, 1},
		{" \t='1'", "", errNoName, 1}, // the blanks before the name do not count
		{"A ='1'", "", errSpace, 1},
		{"A=1", "", errUnquoted, 1},
		{"A=", "", errUnquoted, 1},
		{"A=\"1\"", "", errUnquoted, 1},
		{"A='1''2'", "", errBehind, 1},
		{"B='1\n2' x\nA='1'", "", errBehind, 2},
		{"B='1'\nA='1\n2\n", "", errUnclosed, 2},
		{"B='1'\nB='" + long + "'\nA='1'", "", errLineLength, 2},
		{"A='\n" + long, "", errLineLength, 2},
	} {
		got, err := Find([]byte(c.file), "A")
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%.40q: %q, %v; want %q, %v", c.file, got, err, c.want, c.err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("line %d: ", c.line)) {
			t.Errorf("%.40q: %v, want line %d", c.file, err, c.line)
		}
	}
}

func FuzzErrorsShowNothingOfTheFile(f *testing.F) {
	for _, text := range []string{"A=canary", "canary", "A='x'canary", "A='canary", "canary ='1'"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, line := range []string{"%s", "A='canary%s", "A=canary%s", "canary%s", "A='1' canary%s"} {
			if _, err := Find(fmt.Appendf(nil, line, text), "A"); err != nil && strings.Contains(err.Error(), "canary") {
				t.Error(err)
			}
		}
	})
}
