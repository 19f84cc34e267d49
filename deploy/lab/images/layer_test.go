package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// fakeBusybox is a program that answers --list as busybox does.
func fakeBusybox(t *testing.T, applets string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "busybox")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '"+applets+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBusyboxImageHasALinkForEveryApplet(t *testing.T) {
	files, err := busyboxTree(fakeBusybox(t, `sh\nhttpd\nbusybox\nhttpd\n`))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := newLayer(files)
	if err != nil {
		t.Fatal(err)
	}
	r, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := map[string]*tar.Header{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got[h.Name] != nil {
			t.Errorf("%s is in the layer twice", h.Name)
		}
		got[h.Name] = h
	}
	for _, link := range []string{"bin/sh", "bin/httpd"} {
		if h := got[link]; h == nil || h.Typeflag != tar.TypeSymlink || h.Linkname != "busybox" {
			t.Errorf("%s = %+v, want a link to busybox", link, h)
		}
	}
	if h := got["bin/busybox"]; h == nil || h.Typeflag != tar.TypeReg || h.Size == 0 {
		t.Errorf("bin/busybox = %+v, want the binary itself", h)
	}
	if h := got["tmp/"]; h == nil || h.Mode != 0o1777 {
		t.Errorf("tmp/ = %+v, want a directory that everybody may write to", h)
	}
}

func TestBusyboxWithoutHttpdIsRefused(t *testing.T) {
	if _, err := busyboxTree(fakeBusybox(t, `sh\nls\n`)); err == nil {
		t.Error("a busybox without httpd was taken; the example pods would fail in it")
	}
}

func TestSameBinariesGiveSameArchives(t *testing.T) {
	binary := fakeBusybox(t, `sh\nhttpd\n`)
	first, second := t.TempDir(), t.TempDir()
	for _, out := range []string{first, second} {
		if err := run(binary, binary, out); err != nil {
			t.Fatal(err)
		}
	}
	for _, archive := range []string{"busybox.tar", "pause.tar"} {
		a, err := os.ReadFile(filepath.Join(first, archive))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, archive))
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs between two runs", archive)
		}
	}
}
