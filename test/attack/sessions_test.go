//go:build attack

package attack

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a container does to the person who works in it.

// inside runs a command of the program on the agent's socket: CLI adds its flag to the end, where the command is.
func inside(g *target, args ...string) (stdout, stderr string, code int) {
	g.Helper()
	ctx, cancel := node.Bounded()
	defer cancel()
	cmd := exec.CommandContext(ctx, g.Program, args...)
	cmd.Env = append(os.Environ(), "JOURNALET_SOCKET="+g.socket())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its exit code says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// hostileArchive returns an archive with an entry h, after an entry that was requested.
func hostileArchive(t *testing.T, h tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must.OK(t, w.WriteHeader(&tar.Header{Name: "x/", Typeflag: tar.TypeDir}))
	h.Size = 5
	if h.Typeflag != tar.TypeReg {
		h.Size = 0
	}
	must.OK(t, w.WriteHeader(&h))
	if h.Size > 0 {
		_, err := w.Write([]byte("owned"))
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// A container whose tar writes what was not requested: the copy writes nothing outside its destination.
func TestTarOfAContainer(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	archives := map[string]tar.Header{
		"absolute": {Name: outside + "/file", Typeflag: tar.TypeReg},
		"parents":  {Name: "x/../../outside/file", Typeflag: tar.TypeReg},
		"other":    {Name: "other/file", Typeflag: tar.TypeReg},
		"link":     {Name: "x/link", Typeflag: tar.TypeSymlink, Linkname: outside},
		"hard":     {Name: "x/hard", Typeflag: tar.TypeLink, Linkname: outside + "/secret"},
		"device":   {Name: "x/device", Typeflag: tar.TypeBlock, Devmajor: 8},
		"pipe":     {Name: "x/pipe", Typeflag: tar.TypeFifo},
	}
	attack{
		begin: func(g *target) {
			script := "mkdir /evil\n"
			for _, name := range slices.Sorted(maps.Keys(archives)) {
				script += "echo " + hostileArchive(g.T, archives[name]) + " | base64 -d | gzip > /evil/" + name + "\n"
			}
			script += "dd if=/dev/zero bs=1M count=64 2>/dev/null | gzip > /evil/zeros\n"
			script += `rm /bin/tar; printf '#!/bin/sh\nexec zcat "/evil/$(cat /which)"\n' > /bin/tar; chmod +x /bin/tar` + "\n"
			g.put(node.Pod("attacker", node.Image, script+"touch /ready; "+node.Idle, func(p *corev1.Pod) {
				p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/ready"}}}}
			}))
			g.await("attacker", "ready", node.Ready)
		},
		check: func(g *target) {
			must.OK(g.T, os.MkdirAll(outside, 0o700))
			must.OK(g.T, os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600))
			for _, name := range []string{"absolute", "parents", "other", "link", "hard", "device", "pipe", "zeros"} {
				_, errs, code := inside(g, "exec", "attacker", "--", "sh", "-c", "echo "+name+" > /which")
				if code != 0 {
					g.Fatalf("%s: exit code %d, %s", name, code, errs)
				}
				to := filepath.Join(filepath.Dir(outside), "to-"+name)
				_, errs, code = inside(g, "cp", "attacker:/x", to)
				leftOut := name == "link" || name == "hard" || name == "device" || name == "pipe"
				if leftOut != (code == 0) || leftOut != strings.Contains(errs, "left out") {
					g.Errorf("%s: exit code %d, %s", name, code, errs)
				}
				entries, _ := os.ReadDir(to) // absent if nothing was written
				rest, err := os.ReadDir(outside)
				must.OK(g.T, err)
				if len(entries) != 0 || len(rest) != 1 {
					g.Errorf("%s: the destination has %v, beside it is %v", name, entries, rest)
				}
			}
		},
	}.run(t)
}

// Names that lead to another pod, if something took them for a path.
func TestNamesOfSessionsLeadNowhereElse(t *testing.T) {
	attack{
		begin: func(*target) {},
		check: func(g *target) {
			pod := "bystander-1-" + g.Node
			names := []string{"../default/" + pod, "x/../" + pod, "default%2F" + pod, "default/" + pod + "/../x",
				"default\u2215" + pod, "\u202e" + pod, pod + "/main", "/" + pod, "//" + pod, pod + "?uid=1"}
			for _, name := range names {
				out, errs, code := inside(g, "exec", name, "--", "echo", "inside")
				if code == 0 || strings.Contains(out, "inside") {
					g.Errorf("pod %q: exit code %d, %s%s", name, code, out, errs)
				}
				_, errs, code = inside(g, "exec", pod, "-c", "../"+name+"/main", "--", "echo", "inside")
				if code != 6 || strings.ContainsAny(errs, "\u202e\x1b") {
					g.Errorf("container of %q: exit code %d, %q", name, code, errs)
				}
			}
			if out, errs, code := inside(g, "exec", pod, "--", "echo", "inside"); code != 0 || out != "inside\n" {
				g.Errorf("the pod itself: exit code %d, %s%s", code, out, errs)
			}
		},
	}.run(t)
}
