package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed files
var ours embed.FS

// A file is one of a package, a directory of its own, or a link.
type file struct {
	path   string
	mode   fs.FileMode
	data   []byte // of a link: where it leads
	source string // instead of data
	config bool   // the operator's: an upgrade keeps what was changed
}

// kind is a format of packages.
type kind string

const (
	debian kind = "deb"
	redhat kind = "rpm"
)

// places are the paths that differ between distributions.
var places = map[kind]struct{ config, zsh string }{
	debian: {"/etc/default/journalet", "/usr/share/zsh/vendor-completions/_journalet"},
	redhat: {"/etc/sysconfig/journalet", "/usr/share/zsh/site-functions/_journalet"},
}

// contents returns what is in a package.
func contents(k kind, root, binary string, t texts) ([]file, error) {
	repo := os.DirFS(root)
	var problem error
	read := func(name string) []byte {
		data, err := fs.ReadFile(repo, name)
		problem = errors.Join(problem, err)
		return data
	}
	at := places[k]
	files := []file{
		{path: "/usr/bin/journalet", mode: 0o755, source: binary},
		// A plugin of kubectl is a program of this name, and so is what completes its command lines (ADR 093).
		{path: "/usr/bin/kubectl-journalet", mode: fs.ModeSymlink | 0o777, data: []byte("journalet")},
		{path: "/usr/bin/kubectl_complete-journalet", mode: fs.ModeSymlink | 0o777, data: []byte("journalet")},
		{path: "/usr/lib/systemd/system/journalet.service", mode: 0o644,
			data: packaged(read("deploy/systemd/journalet.service"))},
		{path: at.config, mode: 0o644, data: read("deploy/systemd/journalet.default"), config: true},
		{path: "/etc/journalet", mode: fs.ModeDir | 0o755},
		{path: "/etc/journalet/pods", mode: fs.ModeDir | 0o750}, // env of pods may be secret

		// For the kubelet's place (ADR 060): of the same names as files of the packages kubelet and kubeadm.
		{path: "/usr/share/journalet/kubelet.service", mode: 0o644,
			data: packaged(read("deploy/systemd/kubelet.service"))},
		{path: "/usr/share/journalet/kubelet.service.d/10-kubeadm.conf", mode: 0o644,
			data: read("deploy/systemd/kubelet.service.d/10-kubeadm.conf")},
		// Whether the kernel panics is the machine's owner's choice.
		{path: "/usr/share/journalet/90-journalet.conf", mode: 0o644, data: read("deploy/systemd/90-journalet.conf")},

		{path: "/usr/share/bash-completion/completions/journalet", mode: 0o644, data: t.completions["bash"]},
		{path: at.zsh, mode: 0o644, data: t.completions["zsh"]},
		{path: "/usr/share/fish/vendor_completions.d/journalet.fish", mode: 0o644, data: t.completions["fish"]},

		{path: "/usr/share/doc/journalet/copyright", mode: 0o644, data: copyright(root)},
		{path: "/usr/share/doc/journalet/third-party.txt.gz", mode: 0o644, data: compressed(t.notices)},
		{path: "/usr/share/doc/journalet/changelog.gz", mode: 0o644, data: compressed(read("CHANGELOG.md"))},
	}
	for _, name := range slices.Sorted(maps.Keys(t.manual)) {
		page := file{path: "/usr/share/man/man1/" + name + ".gz", mode: 0o644, data: compressed(t.manual[name])}
		files = append(files, page)
	}
	return files, problem
}

// packaged returns a unit as a package has it: with its program in /usr/bin, and without the comment at its head, which
// says how to install it by hand.
func packaged(unit []byte) []byte {
	_, text, _ := strings.Cut(string(unit), "[Unit]\n")
	return []byte("[Unit]\n" + strings.ReplaceAll(text, "/usr/local/bin/", "/usr/bin/"))
}

// copyright is the licence of the repository, if it has one.
func copyright(root string) []byte {
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		licence = []byte("Journalet has no licence yet. Ask its authors before you pass it on.\n")
	}
	return fmt.Appendf(nil, "%s\nThe licences of the modules that are built in: third-party.txt.gz.\n", licence)
}

// script returns a maintainer script.
func script(k kind, name string) []byte {
	text := must(ours.ReadFile("files/" + string(k) + "/" + name))
	return bytes.Replace(text, []byte("#UNITS\n"), must(ours.ReadFile("files/units.sh")), 1)
}

// compressed is gzip without a name and a time.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	w := must(gzip.NewWriterLevel(&b, gzip.BestCompression))
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// must is for what fails only where this program is wrong: files that are built into it.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
