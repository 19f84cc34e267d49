package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2/rpm"
	"github.com/sassoftware/go-rpmutils"
)

// Tags that the library has no names for.
const (
	recommendName = 5046
	suggestName   = 5049
)

func TestRPMHasItsFilesScriptsAndFields(t *testing.T) {
	r, texts := standIn(t)
	ok(t, r.writePackage(redhat, rpm.DefaultRPM, "arm64", texts))
	f, err := os.Open(filepath.Join(r.out, "journalet-0.2.0+12.gabc1234-1.aarch64.rpm"))
	ok(t, err)
	defer f.Close()
	pkg, err := rpmutils.ReadRpm(f)
	ok(t, err)
	var got strings.Builder
	for _, tag := range []struct {
		name string
		id   int
	}{
		{"name", rpmutils.NAME}, {"version", rpmutils.VERSION}, {"release", rpmutils.RELEASE}, {"arch", rpmutils.ARCH},
		{"license", rpmutils.LICENSE}, {"build host", rpmutils.BUILDHOST}, {"requires", rpmutils.REQUIRENAME},
		{"recommends", recommendName}, {"suggests", suggestName}, {"conflicts", rpmutils.CONFLICTNAME},
	} {
		values, err := pkg.Header.GetStrings(tag.id)
		if err != nil && !errors.As(err, new(rpmutils.NoSuchTagError)) {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s: %s\n", tag.name, strings.Join(values, ", "))
	}
	for name, tag := range map[string]int{
		"post": rpmutils.POSTIN, "preun": rpmutils.PREUN, "postun": rpmutils.POSTUN,
	} {
		text, err := pkg.Header.GetString(tag)
		if err != nil || text != string(script(redhat, name)) {
			t.Errorf("the script %s is not the one of files/rpm: %v\n%s", name, err, text)
		}
	}
	built, err := pkg.Header.GetInt(rpmutils.BUILDTIME)
	if err != nil || int64(built) != someDate.Unix() {
		t.Errorf("built at %d, %v, want the date of the commit", built, err)
	}
	writeFiles(t, pkg, &got)
	compare(t, "rpm.txt", got.String())
}

// writeFiles lists the files of the header with their flags, and holds the payload to the binary.
func writeFiles(t *testing.T, pkg *rpmutils.Rpm, out io.Writer) {
	t.Helper()
	files, err := pkg.Header.GetFiles()
	ok(t, err)
	for _, f := range files {
		mode := fs.FileMode(f.Mode()).Perm()
		switch f.Mode() & 0o170000 {
		case 0o040000:
			mode |= fs.ModeDir
		case 0o120000:
			mode |= fs.ModeSymlink
		}
		flags := ""
		if f.Flags()&rpmutils.RPMFILE_CONFIG != 0 {
			flags += " config"
		}
		if f.Flags()&rpmutils.RPMFILE_NOREPLACE != 0 {
			flags += " noreplace"
		}
		fmt.Fprintf(out, "%s %s/%s %s%s%s\n", mode, f.UserName(), f.GroupName(), f.Name(), arrow(f.Linkname()), flags)
		if int64(f.Mtime()) != someDate.Unix() {
			t.Errorf("%s is of %d, want the date of the commit", f.Name(), f.Mtime())
		}
	}
	dir := t.TempDir()
	ok(t, pkg.ExpandPayload(dir))
	program, err := os.ReadFile(filepath.Join(dir, "usr/bin/journalet"))
	if err != nil || string(program) != "program for arm64" {
		t.Errorf("the program of the payload is %q, %v", program, err)
	}
}
