package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
	"github.com/goreleaser/nfpm/v2/deb"
)

// members returns the members of an ar archive, and fails for one of another date.
func members(t *testing.T, name string) map[string][]byte {
	t.Helper()
	f, err := os.Open(name)
	ok(t, err)
	defer f.Close()
	out := map[string][]byte{}
	for r := ar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		ok(t, err)
		if !h.ModTime.Equal(someDate) {
			t.Errorf("the member %s is of %s, want the date of the commit", h.Name, h.ModTime)
		}
		data, err := io.ReadAll(r)
		ok(t, err)
		out[strings.TrimSuffix(h.Name, "/")] = data
	}
}

// entry is one file of a tar archive.
type entry struct {
	header *tar.Header
	data   []byte
}

func untar(t *testing.T, compressed []byte) []entry {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	ok(t, err)
	var out []entry
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		ok(t, err)
		if !h.ModTime.Equal(someDate) {
			t.Errorf("%s is of %s, want the date of the commit", h.Name, h.ModTime)
		}
		data, err := io.ReadAll(r)
		ok(t, err)
		out = append(out, entry{h, data})
	}
}

func TestDebHasItsFilesScriptsAndFields(t *testing.T) {
	r, texts := standIn(t)
	ok(t, r.writePackage(debian, deb.Default, "arm64", texts))
	inside := members(t, filepath.Join(r.out, "journalet_0.2.0+12.gabc1234_arm64.deb"))
	var got strings.Builder
	var sums string
	for _, e := range untar(t, inside["control.tar.gz"]) {
		switch name := path.Base(e.header.Name); name {
		case "control":
			got.WriteString(withoutSize(string(e.data)))
		case "md5sums":
			sums = string(e.data)
		case "conffiles":
			fmt.Fprintf(&got, "conffiles: %s\n", strings.Fields(string(e.data)))
		default:
			fmt.Fprintf(&got, "%s %s\n", fs.FileMode(e.header.Mode), name)
			if !bytes.Equal(e.data, script(debian, name)) {
				t.Errorf("the script %s is not the one of files/deb", name)
			}
		}
	}
	for _, e := range untar(t, inside["data.tar.gz"]) {
		fmt.Fprintf(&got, "%s %s/%s %s%s\n", e.header.FileInfo().Mode(), e.header.Uname, e.header.Gname, e.header.Name,
			arrow(e.header.Linkname))
		sum := fmt.Sprintf("%x  %s", md5.Sum(e.data), strings.TrimPrefix(e.header.Name, "./"))
		if e.header.Typeflag == tar.TypeReg && !strings.Contains(sums, sum) {
			t.Errorf("md5sums lacks %q", sum)
		}
	}
	compare(t, "deb.txt", got.String())
}

// arrow shows where a link leads, as ls does.
func arrow(to string) string {
	if to == "" {
		return ""
	}
	return " -> " + to
}

// withoutSize drops the size, which is of the stand-in.
func withoutSize(control string) string {
	var out strings.Builder
	for line := range strings.Lines(control) {
		if !strings.HasPrefix(line, "Installed-Size:") {
			out.WriteString(line)
		}
	}
	return out.String()
}
