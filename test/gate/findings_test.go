package main

import (
	"slices"
	"testing"
)

const someLog = `ok  	example.com/m/ok	0.1s
=== RUN   TestLoud
    loud_test.go:1: what it printed
--- FAIL: TestLoud (0.10s)
=== RUN   TestFine
--- PASS: TestFine (0.00s)
--- FAIL: TestQuiet (0.10s)
    quiet_test.go:2: printed afterwards
FAIL
FAIL	example.com/m/both	0.2s
==================
WARNING: DATA RACE
Write at 0x00c000014128 by goroutine 8:
==================
--- FAIL: TestRacing (0.00s)
    testing.go:1617: race detected during execution of test
FAIL	example.com/m/racing	0.3s
panic: test timed out after 1s
	panic: again
FAIL	example.com/m/hung	1.0s
FAIL	example.com/m/broken [build failed]
FAIL	example.com/m/killed	0.0s
FAIL
`

func TestFindingsNameWhatFailed(t *testing.T) {
	var got [][3]string
	for _, f := range findings(someLog) {
		got = append(got, [3]string{f.What, f.Package, f.Test})
	}
	want := [][3]string{
		{"FAIL", "example.com/m/both", "TestLoud"}, {"FAIL", "example.com/m/both", "TestQuiet"},
		{"race", "example.com/m/racing", ""}, {"FAIL", "example.com/m/racing", "TestRacing"},
		{"panic", "example.com/m/hung", ""}, {"build", "example.com/m/broken", ""}, {"FAIL", "example.com/m/killed", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFindingShowsWhatItsTestPrinted(t *testing.T) {
	found := findings(someLog)
	for i, want := range []string{"    loud_test.go:1: what it printed", "    quiet_test.go:2: printed afterwards"} {
		if !slices.Contains(found[i].Lines, want) {
			t.Errorf("%s lacks %q: %q", found[i].Test, want, found[i].Lines)
		}
	}
}

func TestSeedsOfALogHaveTheirTestAndInvariant(t *testing.T) {
	log := "seed 12: no pod is lost\n  text\nreproduce: make sim SEED=12 TEST=TestNothingBreaksUnderOperators\n" +
		"seed 13: no pod is doubled\nreproduce: make sim SEED=13 KEEP=1,2\n"
	want := []seed{
		{number: "12", test: "TestNothingBreaksUnderOperators", invariant: "no pod is lost"},
		{number: "13", test: "TestNothingBreaksUnderFaults", invariant: "no pod is doubled"},
	}
	if got := seedsOf(log); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
