package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

const someVersion = "v0.2.0-12-gabc1234"

var someDate = time.Date(2026, 11, 27, 11, 11, 0, 0, time.UTC)

// standIn is a release of this repository with one line instead of the program, and few texts: to compile the agent
// takes minutes. `make dist-test` tries the real one.
func standIn(t *testing.T) (release, texts) {
	t.Helper()
	r := release{root: "../..", out: t.TempDir(), version: someVersion, date: someDate}
	var err error
	r.number, err = packageVersion(r.version, r.date)
	ok(t, err)
	for _, arch := range architectures {
		ok(t, put(r.binary(arch), []byte("program for "+arch)))
	}
	list := []command{{Path: "journalet", Usage: "journalet", Short: "An agent"}}
	return r, texts{
		manual:      manual(list, r.version, r.date),
		completions: map[string][]byte{"bash": []byte("# bash"), "zsh": []byte("# zsh"), "fish": []byte("# fish")},
		notices:     []byte("licences"),
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// compare fails with both texts where they differ. The wanted one is a file below testdata.
func compare(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	ok(t, err)
	if got != string(want) {
		t.Errorf("got\n%s\nwant, as testdata/%s:\n%s", got, name, want)
	}
}
