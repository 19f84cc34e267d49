package nfs

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pod/mount8"
)

// maxServerBytes is the longest name that DNS has; maxPathBytes the longest path that Linux takes.
const maxServerBytes, maxPathBytes = 253, 4095

// ErrSource means that a volume names no export that could be mounted: only another manifest or PersistentVolume helps.
var ErrSource = errors.New("no NFS export")

// Source is an export, and how it is mounted.
type Source struct {
	// Server is a host name or an address, Path the absolute path of the export on it.
	Server, Path string
	// Options are options of mount(8), such as nfsvers=4.2.
	Options  []string
	ReadOnly bool
}

// OfVolume returns the source of a volume of a pod.
func OfVolume(v *corev1.NFSVolumeSource) Source {
	return Source{Server: v.Server, Path: v.Path, ReadOnly: v.ReadOnly}
}

// OfPersistentVolume returns the source of a PersistentVolume with an NFS export. readOnly is what the claim's volume
// in the pod says. The kubelet ignores the PersistentVolume's own readOnly, which the API documents to force a mount
// that is read-only.
func OfPersistentVolume(pv *corev1.PersistentVolume, readOnly bool) Source {
	s := OfVolume(pv.Spec.NFS)
	s.ReadOnly = s.ReadOnly || readOnly
	s.Options = mount8.OptionsOf(pv)
	return s
}

// device returns what is mounted, as mount(8) takes it.
func (s Source) device() string {
	server := s.Server
	if a, err := netip.ParseAddr(server); err == nil && a.Is6() {
		server = "[" + server + "]"
	}
	return server + ":" + s.Path
}

// options returns the options as one word; empty: none.
func (s Source) options() string { return mount8.Join(s.Options, s.ReadOnly) }

// check returns an error that is ErrSource, unless mount(8) takes the source as an export and nothing else. Anybody who
// may create pods can choose server and path. The options come from somebody who may create PersistentVolumes, and are
// passed on.
func (s Source) check() error {
	wrong := ""
	switch {
	case !isServer(s.Server):
		wrong = fmt.Sprintf("the server %.64q is neither a host name nor an address", s.Server)
	case !path.IsAbs(s.Path):
		wrong = fmt.Sprintf("the path %.64q is not absolute", s.Path)
	case len(s.Path) > maxPathBytes || strings.ContainsFunc(s.Path, unicode.IsControl):
		wrong = fmt.Sprintf("the path %.64q is longer than %d bytes or has control characters", s.Path, maxPathBytes)
	case mount8.Check(s.options()) != "":
		wrong = mount8.Check(s.options())
	default:
		return nil
	}
	return fmt.Errorf("%w: %s; correct the volume", ErrSource, wrong)
}

// isServer reports whether a text is a host name or an IP address, also one of version 6 in brackets.
func isServer(text string) bool {
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if a, err := netip.ParseAddr(inner); err == nil && opened == closed && (!opened || a.Is6()) {
		return !strings.ContainsFunc(a.Zone(), func(r rune) bool { return !isNamed(r) })
	}
	if text == "" || len(text) > maxServerBytes || text[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return !isNamed(r) })
}

// isNamed reports whether a character may be in a host name. Names without a dot at their end and with underscores are
// in use.
func isNamed(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r)
}
