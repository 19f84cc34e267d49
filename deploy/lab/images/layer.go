package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// file is one entry of a layer. Exactly one kind applies: a link when link is set, a directory when the name ends in
// a slash, else a regular file with data. Everything belongs to root.
type file struct {
	name string // without a leading slash
	mode int64  // permission bits, ignored for links
	link string // target of a symbolic link
	data []byte
}

// The users that pods commonly ask for by name or by runAsUser; nobody is 65534 as on Debian.
const (
	passwd = "root:x:0:0:root:/root:/bin/sh\n" +
		"daemon:x:1:1:daemon:/usr/sbin:/bin/false\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
	group = "root:x:0:\ndaemon:x:1:\nnobody:x:65534:\n"
)

// pauseTree is the pause image: one binary.
func pauseTree(binary string) ([]file, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("pause binary: %w; install catatonit", err)
	}
	return []file{{name: "pause", mode: 0o555, data: data}}, nil
}

// busyboxTree is a small root file system: busybox with a link in /bin for each applet it says it has.
func busyboxTree(binary string) ([]file, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("busybox binary: %w; install busybox-static", err)
	}
	list, err := exec.Command(binary, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its applets: %w", binary, err)
	}
	applets := strings.Fields(string(list))
	slices.Sort(applets)
	applets = slices.Compact(applets)
	if !slices.Contains(applets, "sh") || !slices.Contains(applets, "httpd") {
		return nil, fmt.Errorf("%s lacks sh or httpd, which the example pods need: use Debian's busybox-static", binary)
	}
	files := []file{
		{name: "bin/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "root/", mode: 0o700},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/sbin/", mode: 0o755},
		{name: "var/", mode: 0o755},
		{name: "var/tmp/", mode: 0o1777},
		{name: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{name: "etc/group", mode: 0o644, data: []byte(group)},
		{name: "bin/busybox", mode: 0o755, data: data},
		{name: "usr/bin/env", link: "../../bin/busybox"}, // scripts say #!/usr/bin/env
	}
	for _, applet := range applets {
		if applet != "busybox" {
			files = append(files, file{name: "bin/" + applet, link: "busybox"})
		}
	}
	return files, nil
}

// newLayer packs files, in the given order and with a fixed time, into an image layer.
func newLayer(files []file) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		if err := w.WriteHeader(f.header()); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
}

func (f file) header() *tar.Header {
	h := &tar.Header{Name: f.name, Mode: f.mode, ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg, Size: int64(len(f.data))}
	switch {
	case f.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
	case strings.HasSuffix(f.name, "/"):
		h.Typeflag = tar.TypeDir
	}
	return h
}
