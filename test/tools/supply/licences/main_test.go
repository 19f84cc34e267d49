package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLicenceOfAModuleIsFound(t *testing.T) {
	dir := t.TempDir()
	d := dependency{path: "example.org/m", version: "v1.0.0", dir: dir}
	if found, err := licencesOf(d); err == nil {
		t.Errorf("a module without a licence has %v", found)
	}
	text := "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is " +
		"hereby granted, provided that the above copyright notice and this permission notice appear in all copies.\n\n" +
		"THE SOFTWARE IS PROVIDED \"AS IS\" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING " +
		"ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, " +
		"DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, " +
		"WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE " +
		"USE OR PERFORMANCE OF THIS SOFTWARE.\n"
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := licencesOf(d)
	if err != nil || strings.Join(found, ",") != "ISC" {
		t.Errorf("found %v, %v; want ISC", found, err)
	}
	if err := table(&bytes.Buffer{}, map[string]dependency{"m": d}, []string{"MIT"}); err == nil {
		t.Error("a licence that is not allowed is no error")
	}
	if err := table(&bytes.Buffer{}, map[string]dependency{"m": d}, []string{"ISC"}); err != nil {
		t.Error(err)
	}
}

func TestTextsAreThoseThatGoWithABinary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "NOTICE.txt", "COPYING", "README.md", "LICENSE.docs"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := textsOf(dir)
	if got := strings.Join(texts, ","); err != nil || got != "COPYING,LICENSE,NOTICE.txt" {
		t.Errorf("texts %s, %v", got, err)
	}
}
