package image

import (
	"maps"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// FullName completes an image's name as runtimes do: "busybox" is "docker.io/library/busybox:latest". Of a name with
// a tag and a digest the digest counts.
func FullName(name string) string {
	name, digest, byDigest := strings.Cut(name, "@")
	host, path, found := strings.Cut(name, "/")
	switch {
	case !found:
		host, path = "docker.io", name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		host, path = "docker.io", name
	case host == "index.docker.io":
		host = "docker.io"
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	repository, tag, tagged := strings.Cut(path, ":")
	switch {
	case byDigest:
		return host + "/" + repository + "@" + digest
	case !tagged:
		tag = "latest"
	}
	return host + "/" + repository + ":" + tag
}

// requested returns the full names of images that somebody waits for, or that are being pulled.
func (a *Actor) requested() map[string]bool {
	s := a.state
	names := map[string]bool{}
	add := func(name string) { names[name], names[FullName(name)] = true, true }
	for _, id := range slices.Sorted(maps.Keys(s.Pulls)) {
		add(s.Pulls[id].GetImage())
	}
	for _, id := range slices.Sorted(maps.Keys(s.Waits)) {
		if s.Waits[id].GetWaiting() {
			add(s.Waits[id].GetImage())
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.OperatorPulls)) {
		add(s.OperatorPulls[id].GetImage())
	}
	return names
}

// isRequested reports whether an image has one of the names, or is named by its id.
func isRequested(o *journaletv1.ImageObservation, names map[string]bool) bool {
	return names[o.GetId()] || slices.ContainsFunc(o.GetNames(), func(n string) bool { return names[n] })
}

// NameOf returns a name of an image for people: the first one with a tag, else any, else its id.
func NameOf(o *journaletv1.ImageObservation) string {
	for _, n := range o.GetNames() {
		if !strings.Contains(n, "@") {
			return n
		}
	}
	if len(o.GetNames()) > 0 {
		return o.GetNames()[0]
	}
	return o.GetId()
}
