package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
)

// What a pod writes beside its volumes, layers and logs counts for the limit of the pod, and of the container.
func TestEveryPlaceThatAPodWritesCounts(t *testing.T) {
	total := "u: Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. "
	main := `u: Container main exceeded its local ephemeral storage limit "1Mi". `
	for name, c := range map[string]struct{ file, want string }{
		"termination message":                    {"pods/u/containers/main/0", main},
		"termination message of a later attempt": {"pods/u/containers/main/7", main},
		"termination messages of others":         {"pods/u/containers/debug/0", ""},
		"hosts":                                  {"pods/u/etc-hosts", ""},
		"hosts that were replaced":               {"pods/u/etc-hosts.0", ""},
		"rotated logs":                           {"logs/u/main/0.log.20260101-000000.gz", main},
		"logs of a container that is gone":       {"logs/u/debug/0.log", ""},
		"hostname":                               {"runtime/sandboxes/s1/hostname", ""},
		"resolvers":                              {"runtime/sandboxes/s1/resolv.conf", ""},
		"volume of the image":                    {"runtime/containers/c1/volumes/v1/a/b", main},
		"volume of another container's image":    {"runtime/containers/c2/volumes/v1/a/b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.provided("s1", "c1", "main", 1, "rw", "/sandboxes/s1/hostname", "/sandboxes/s1/resolv.conf",
					"/containers/c1/volumes/v1")
				w.provided("s1", "c2", "other", 0, "rw", "/sandboxes/s1/hostname", "/containers/c2/volumes/v1")
				w.runs("u", corev1.PodSpec{Containers: []corev1.Container{container("main", "1Mi"), container("other", "9Mi")}})
				w.after(2 * Period)
				w.write(filepath.Join(w.root, c.file), 2*mi)
				if c.want != "" {
					w.after(Period, c.want)
					return
				}
				w.after(2 * Period)
				must.OK(w, os.Truncate(filepath.Join(w.root, c.file), 0))
				w.write(filepath.Join(w.root, c.file), 11*mi)
				w.after(Period, total)
			})
		})
	}
}

// provided adds a container to the runtime, with mounts of what the runtime has provided in its directory.
func (w *world) provided(sandbox, id, name string, attempt uint32, mode string, paths ...string) {
	w.containers = append(w.containers, &cri.Container{Id: id, PodSandboxId: sandbox,
		Metadata: &cri.ContainerMetadata{Name: name, Attempt: attempt}})
	var mounts []string
	for _, p := range paths {
		mounts = append(mounts, fmt.Sprintf(`{"destination": "/m", "type": "bind", "source": %q, "options": ["rbind", %q]}`,
			filepath.Join(w.root, "runtime", p), mode))
	}
	if w.infos == nil {
		w.infos = map[string]string{}
	}
	w.infos[id] = `{"pid": 7, "runtimeSpec": {"mounts": [` + strings.Join(mounts, ", ") + `]}}`
}

// Each place counts once; what cannot be written, what a plugin gives of the node, and earlier instances do not.
func TestWhatTheRuntimeProvidesCountsOnce(t *testing.T) {
	w := newWorld(t)
	w.provided("s1", "c0", "main", 0, "rw", "/containers/c0/volumes/v")
	w.provided("s1", "c1", "main", 1, "rw", "/sandboxes/s1/hostname", "/containers/c1/volumes/v",
		"/node/files", "/s1x/files")
	w.provided("s1", "c2", "other", 0, "rw", "/sandboxes/s1/hostname")
	w.provided("s1", "c3", "reads", 0, "ro", "/containers/c3/volumes/v")
	for _, f := range []string{"containers/c0/volumes/v/f", "sandboxes/s1/hostname", "containers/c1/volumes/v/f",
		"node/files/f", "s1x/files/f", "containers/c3/volumes/v/f"} {
		w.write(filepath.Join(w.root, "runtime", f), mi)
	}
	must.OK(t, os.Link(filepath.Join(w.root, "runtime/containers/c1/volumes/v/f"),
		filepath.Join(w.root, "runtime/containers/c1/volumes/v/g")))
	for range 2 {
		m, err := w.d.Provided(t.Context(), "u", 0)
		if err != nil || m.Pod.FileBytes != mi || m.Containers["main"].FileBytes != mi || len(m.Containers) != 1 {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if n := w.calls["ContainerStatusRequest"]; n != 3 {
		t.Errorf("the runtime is asked %d times for the mounts of 3 containers", n)
	}
	w.infos["c1"] = "not JSON"
	w.d.forget("u")
	if m, err := w.d.Provided(t.Context(), "u", 0); err == nil || m.Pod.FileBytes != mi {
		t.Errorf("with one container whose mounts are unknown: %+v, %v", m, err)
	}
	w.containers = nil
	if m, err := w.d.Provided(t.Context(), "u", 0); err != nil || len(m.Containers) != 0 || len(w.d.provided) != 0 {
		t.Errorf("without containers: %+v, %v, %d pods in memory", m, err, len(w.d.provided))
	}
}

// A container that fills what the runtime has provided is measured no further than to its limit.
func TestPlacesOfTheRuntimeAreMeasuredToTheLimitOnly(t *testing.T) {
	w := newWorld(t)
	w.provided("s1", "c1", "main", 0, "rw", "/containers/c1/volumes/v")
	for i := range 2000 {
		w.write(filepath.Join(w.root, "runtime/containers/c1/volumes/v", fmt.Sprint(i)), 1)
	}
	m, err := w.d.Provided(t.Context(), "u", 1<<20)
	if used := m.Containers["main"]; err != nil || used.Bytes() <= 1<<20 || used.Bytes() > 2<<20 {
		t.Errorf("%+v, %v", used, err)
	}
}
