package images

import (
	"fmt"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Parts are the files that the images are built from.
type Parts struct {
	Lab      string // directory of the lab's busybox.tar and pause.tar
	Programs string // directory of Kubernetes' programs
	Source   string // directory of the module k8s.io/kubernetes
	Bash     string // a static bash
	Shell    string // the program in sh
	Tools    string // the program in tools
	DNS      string // directory of coredns; empty: without the images of a whole cluster
	Sidecars string // directory of the sidecars of CSI drivers; empty: without the images of drivers
	Drivers  string // directory of the programs hostpath, registrar and livenessprobe
	API      string // host:port of the API server, as pods reach it; only sidecars need it
}

// The names that the tests of release 1.37 ask for.
const (
	tests       = "registry.k8s.io/e2e-test-images/"
	busyboxName = tests + "busybox:1.37.0-2"
	pauseName   = "registry.k8s.io/pause:3.10.2"
)

// users are the users of upstream's agnhost: a spec reads a user's groups from the image.
const (
	users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n" +
		"user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n"
	groups = "root:x:0:\nnobody:x:65534:\nuser-defined-in-image:x:1000:\n" +
		"group-defined-in-image:x:50000:user-defined-in-image\n"
)

// release names the distribution that the spec of image volumes expects in its image.
const release = "NAME=\"Alpine Linux\"\nPRETTY_NAME=\"a stand-in of the Journalet lab for Alpine Linux\"\n"

// All returns the images by their names.
func All(p Parts) (map[string]v1.Image, error) {
	base, err := tarball.ImageFromPath(filepath.Join(p.Lab, "busybox.tar"), nil)
	if err != nil {
		return nil, fmt.Errorf("the lab's busybox: %w; run `make lab-up`", err)
	}
	pause, err := tarball.ImageFromPath(filepath.Join(p.Lab, "pause.tar"), nil)
	if err != nil {
		return nil, fmt.Errorf("the lab's pause: %w; run `make lab-up`", err)
	}
	busybox, err := layer(base, []entry{
		{name: "bin/bash", mode: 0o755, from: p.Bash},
		{name: "bin/sh", mode: 0o755, from: p.Shell},
		{name: "bin/nmeter", mode: 0o755, from: p.Tools},
	}, func(c *v1.Config) { c.Cmd = []string{"sh"} })
	if err != nil {
		return nil, err
	}
	agnhost, err := layer(busybox, p.agnhost(), func(c *v1.Config) {
		c.Entrypoint, c.Cmd = []string{"/agnhost"}, []string{"pause"}
		c.Env = append(c.Env, "GODEBUG=netdns=go") // the resolver of a static C library needs files of the host
	})
	if err != nil {
		return nil, err
	}
	all := map[string]v1.Image{busyboxName: busybox, pauseName: pause,
		tests + "agnhost:2.66.1": agnhost, tests + "agnhost:2.55": agnhost}
	if p.DNS != "" {
		if err := p.cluster(all, pause); err != nil {
			return nil, err
		}
	}
	if p.Sidecars != "" {
		if err := p.drivers(all, busybox); err != nil {
			return nil, err
		}
	}
	return all, p.derived(all, busybox, agnhost)
}

func (p Parts) agnhost() []entry {
	porter := filepath.Join(p.Source, "test", "images", "agnhost", "porter")
	return []entry{
		{name: "agnhost", mode: 0o755, from: filepath.Join(p.Programs, "agnhost")},
		{name: "agnhost-2", link: "agnhost"},
		{name: "usr/bin/curl", mode: 0o755, from: p.Tools},
		{name: "usr/bin/dig", link: "curl"},
		{name: "usr/bin/getent", link: "curl"},
		{name: "usr/bin/nc", link: "curl"},
		{name: "etc/passwd", mode: 0o644, text: users},
		{name: "etc/group", mode: 0o644, text: groups},
		{name: "uploads/", mode: 0o755},
		{name: "localhost.crt", mode: 0o644, from: filepath.Join(porter, "localhost.crt")},
		{name: "localhost.key", mode: 0o600, from: filepath.Join(porter, "localhost.key")},
	}
}

// derived adds the images that are another one with a little on top.
func (p Parts) derived(all map[string]v1.Image, busybox, agnhost v1.Image) error {
	html := func(animal string) string { return filepath.Join(p.Source, "test", "images", animal, "html") }
	webserver := func(c *v1.Config) { c.Cmd = []string{"test-webserver"} }
	for name, recipe := range map[string]struct {
		base    v1.Image
		entries []entry
		change  func(*v1.Config)
	}{
		"nonroot:1.5": {agnhost, nil, func(c *v1.Config) { c.User = "1234" }},
		"nonewprivs:1.4": {busybox, []entry{
			{name: "usr/local/", mode: 0o755}, {name: "usr/local/bin/", mode: 0o755},
			{name: "usr/local/bin/nnp", mode: 0o6755, from: filepath.Join(p.Programs, "nnp")},
		}, func(c *v1.Config) { c.Cmd = []string{"nnp"} }},
		"kitten:1.8": {agnhost, []entry{
			{name: "kitten.jpg", mode: 0o644, from: filepath.Join(html("kitten"), "kitten.jpg")},
			{name: "data.json", mode: 0o644, from: filepath.Join(html("kitten"), "data.json")},
			{name: "etc/os-release", mode: 0o644, text: release},
		}, webserver},
		"nautilus:1.8": {agnhost, []entry{
			{name: "nautilus.jpg", mode: 0o644, from: filepath.Join(html("nautilus"), "nautilus.jpg")},
			{name: "data.json", mode: 0o644, from: filepath.Join(html("nautilus"), "data.json")},
		}, webserver},
		// For its dig and getent, and its shell with hostname, dd and blockdev.
		"glibc-dns-testing:2.1.1": {agnhost, nil, func(c *v1.Config) { c.Entrypoint, c.Cmd = nil, []string{"sh"} }},
		"nginx:1.27.0-2":          {agnhost, nil, webserver},
		"nginx:1.28.0-2":          {agnhost, nil, webserver},
	} {
		image, err := layer(recipe.base, recipe.entries, recipe.change)
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		all[tests+name] = image
	}
	return nil
}
