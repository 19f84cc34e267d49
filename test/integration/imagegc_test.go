//go:build integration

package integration

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/terminal"
)

// withFile returns a layer with one more file, so that its image is another one.
func withFile(t *testing.T, layer []byte, name string) []byte {
	t.Helper()
	var more bytes.Buffer
	w := tar.NewWriter(&more)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = io.WriteString(w, name)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	const end = 1024 // two empty blocks
	return slices.Concat(layer[:len(layer)-end], more.Bytes())
}

// observedImage matches an observation of an image, in use or not.
func observedImage(t *testing.T, name string, used bool) func(messages.Flat) bool {
	return func(f messages.Flat) bool {
		return named("images_observed")(f) && slices.ContainsFunc(event(t, f).GetImagesObserved().GetPresent(),
			func(o *journaletv1.ImageObservation) bool {
				return slices.Contains(o.GetNames(), name) && o.GetUsed() == used
			})
	}
}

// cli runs a command and fails the test unless it exits so and prints each text.
func (a *agent) cli(want int, texts []string, args ...string) string {
	a.T.Helper()
	out, errs, code := a.CLI(args...)
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			a.T.Errorf("%v prints no %q:\n%s%s", args, text, out, errs)
		}
	}
	if code != want {
		a.T.Errorf("%v: exit code %d, want %d:\n%s%s", args, code, want, out, errs)
	}
	return out
}

// TestImagesAreCollectedByLastUse runs alone: it removes every unused image of the runtime.
func TestImagesAreCollectedByLastUse(t *testing.T) { //nolint:paralleltest // see above
	h := newHub(t)
	layer := idlerLayer(t)
	old, job, used := h.image("old:1"), h.image("job:1"), h.image("used:1")
	for _, name := range []string{old, job, used} {
		h.push(name, withFile(t, layer, strings.NewReplacer("/", "-", ":", "-").Replace(name)))
	}
	a := newAgent(t)
	a.start()
	a.cli(0, []string{"pulled " + old}, "pull", old)
	a.journal.wait(t, 0, settle, "old on the node", observedImage(t, old, false))
	a.put(newPod("job", "", runs(job, corev1.PullIfNotPresent)))
	a.put(newPod("used", "", runs(used, corev1.PullIfNotPresent)))
	a.pods("both pods", allReady(2))
	a.journal.wait(t, 0, settle, "job in use", observedImage(t, job, true))
	a.cli(1, []string{"cannot pull"}, "pull", h.host+"/none:1")
	a.cli(1, []string{used + " stays: in use by container main of pod default/used-" + a.Node}, "images", "rm", used)
	a.cli(0, []string{old, job, used, "in use", "default/used-" + a.Node, "(pinned)", "File system of images"}, "images")
	at := a.journal.last()
	a.Remove("job.yaml")
	a.pods("the job gone", allReady(1))
	a.journal.wait(t, at, settle, "job unused", observedImage(t, job, false))

	// The order of the last use survives a restart.
	a.Stop()
	run := a.journal.epoch()
	a.ImageGC, a.Flags = true, []string{
		"--image-gc-high-threshold", "1", "--image-gc-low-threshold", "0", "--minimum-image-ttl-duration", "0s",
	}
	a.start()
	next := func(what string, fits func(messages.Flat) bool) messages.Flat {
		t.Helper()
		return a.journal.wait(t, 0, settle, what, func(f messages.Flat) bool { return f.Epoch > run && fits(f) })
	}
	collected := event(t, next("a collection", named("images_collected"))).GetImagesCollected()
	for _, name := range []string{old, job} {
		next(name+" removed", named("call_requested", "remove_image", name))
	}
	eventually(t, settle, "the unused images to be gone", func() error {
		out, _, _ := a.CLI("images")
		if strings.Contains(out, old) || strings.Contains(out, job) {
			return fmt.Errorf("still there:\n%s", out)
		}
		return nil
	})
	a.quiet()
	var order []string
	for _, f := range a.journal.all(named("call_requested", "remove_image")) {
		order = append(order, event(t, f).GetCallRequested().GetRemoveImage().GetName())
	}
	// The first removal was the operator's, which was refused.
	if i, j := slices.Index(order, old), slices.Index(order, job); i < 0 || j < i || order[0] != used ||
		slices.Contains(order[1:], used) || slices.Contains(order, node.Image) || len(collected.GetImages()) < 2 {
		t.Errorf("removed %v, collected %v", order, collected)
	}
	a.cli(0, []string{used, node.Image}, "images")

	// What has not changed is not recorded again: the first observation of the next run is of the next pull.
	a.Stop()
	run = a.journal.epoch()
	a.ImageGC, a.Flags = false, nil
	a.start()
	a.cli(0, []string{"pulled " + old}, "pull", old)
	first := event(t, next("an observation", named("images_observed"))).GetImagesObserved()
	if !first.GetComplete() || !strings.Contains(first.String(), old) {
		t.Errorf("the first observation of the run is %v", first)
	}
	a.cli(0, []string{"removed " + old}, "images", "rm", old)
}

func TestPullAndRemovalInATerminal(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	layer := idlerLayer(t)
	slow, other := h.image("slow:1"), h.image("other:1")
	h.push(slow, withFile(t, layer, "slow"))
	h.push(other, withFile(t, layer, "other"))
	release := h.hold()
	a := newAgent(t)
	a.start()
	command := func(args ...string) *terminal.Terminal {
		return terminal.Run(t, exec.Command(a.Program, append(args, "--root-dir", a.Root)...))
	}
	x := command("pull", slow, other)
	x.Expect(slow + " ")
	x.Expect("[")
	x.Expect("=] ")
	x.Expect(" on disk")
	release()
	x.Expect("pulled ")
	x.Expect("pulled ")
	if code := x.End(); code != 0 {
		t.Errorf("the pull ended with %d", code)
	}
	x = command("images", "rm", slow, other)
	x.Expect("Remove these 2 images, ")
	x.Expect("[y/N]")
	x.Type("n\n")
	x.Expect("nothing is removed")
	if code := x.End(); code != 1 {
		t.Errorf("the refused removal ended with %d", code)
	}
	x = command("images", "rm", slow, other)
	x.Expect("[y/N]")
	x.Type("y\n")
	x.Expect("removed ")
	x.Expect("removed ")
	if code := x.End(); code != 0 {
		t.Errorf("the removal ended with %d", code)
	}
}
