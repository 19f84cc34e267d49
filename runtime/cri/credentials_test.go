package cri_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
)

// keys are the credentials of a test.
type keys struct {
	found  credentials.Found
	verify func(image, id string) bool
}

func (k *keys) Find(context.Context, *journaletv1.PullImage) credentials.Found { return k.found }

func (k *keys) MustPull(_ context.Context, _ *corev1.Pod, image, id string) bool {
	return k.verify != nil && k.verify(image, id)
}

func (k *keys) StillPulls(_ context.Context, pull *journaletv1.PullImage, _, id string) bool {
	return k.verify != nil && k.verify(pull.GetImage(), id)
}

// privateRig is a rig whose registry wants a password, and whose errors repeat what they were given.
func privateRig(t *testing.T, k *keys) (r *rig, tried *[]string) {
	tried = new([]string)
	authorize := func(_ string, auth *runtimeapi.AuthConfig) error {
		*tried = append(*tried, auth.GetUsername())
		if auth.GetPassword() == "the-right-one" {
			return nil
		}
		return errors.New("no entry for " + auth.GetUsername() + " with " + auth.GetPassword())
	}
	rt := sim.New(sim.Options{AnyImage: true, Images: []string{"example.com/loaded:1"}, Authorize: authorize})
	t.Cleanup(rt.Close)
	conn, err := rt.Dial()
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return newRig(t, func(o *cri.Options) { o.Conn, o.Pulls.Credentials = conn, k }), tried
}

// An image that came to the node by another way is taken from there without the registry, by pods that may have it and
// want no newer one. What a pull in doubt has brought needs another one, which says with what.
func TestPullTakesWhatIsOnTheNode(t *testing.T) {
	verified := ""
	k := &keys{verify: func(image, _ string) bool { return image == verified }}
	r, tried := privateRig(t, k)
	const image = "example.com/loaded:1"
	loaded := messages.NewCall(&journaletv1.PullImage{Image: image, IfNotPresent: true})
	out := r.done("p", loaded, false)
	if !out.GetImagePresent() || out.GetImageRef() == "" || out.GetImageBytes() == 0 || out.GetPullCredentials() != nil {
		t.Errorf("outcome %v", out)
	}
	if len(*tried) > 0 {
		t.Errorf("the registry was asked as %q", *tried)
	}
	r.fails("q", pullImage(image), journaletv1.CallError_CALL_ERROR_RUNTIME, "failed to authorize")
	other := messages.NewCall(&journaletv1.PullImage{Image: "example.com/a/b:2", IfNotPresent: true})
	r.fails("r", other, journaletv1.CallError_CALL_ERROR_RUNTIME, "failed to authorize")
	verified = image
	r.fails("s", loaded, journaletv1.CallError_CALL_ERROR_RUNTIME, "failed to authorize")
	verified = ""
	if out := r.perform("t", loaded, true); out.GetImagePresent() {
		t.Errorf("a pull in doubt took what it may have brought: %v", out)
	}
}

func TestPullTriesEachCredential(t *testing.T) {
	k := &keys{found: credentials.Found{
		Candidates: []credentials.Candidate{{Username: "a", Password: "wrong-one"},
			{Username: "b", Password: "the-right-one"}, {Username: "c", Password: "the-right-one"}},
		Values: []string{"wrong-one", "the-right-one"},
	}}
	r, tried := privateRig(t, k)
	pull := messages.NewCall(&journaletv1.PullImage{Image: "example.com/a/b:1", PullSecrets: []string{"one"}})
	out := r.done("p", pull, false)
	used := out.GetPullCredentials()
	if out.GetImageRef() == "" || used.GetRepository() != "example.com/a/b" || !used.GetNodeAccessible() {
		t.Errorf("outcome %v", out)
	}
	if got := strings.Join(*tried, " "); got != "a b" {
		t.Errorf("tried %q", got)
	}

	k.found.Candidates = k.found.Candidates[:1]
	k.found.Problems = []string{`secret "two" not found`}
	out = r.fails("q", pull, journaletv1.CallError_CALL_ERROR_RUNTIME,
		`with (withheld) (credentials tried: 1; secret "two" not found)`)
	if out.GetPullCredentials() != nil {
		t.Errorf("a failed pull is recorded with %v", out.GetPullCredentials())
	}

	k.found = credentials.Found{}
	out = r.fails("r", pull, journaletv1.CallError_CALL_ERROR_RUNTIME, "failed to authorize")
	if strings.Contains(out.GetMessage(), "tried") {
		t.Error(out.GetMessage())
	}
}

func TestImageThatThePodMayNotHaveCountsAsMissing(t *testing.T) {
	var verified []string
	k := &keys{verify: func(image, id string) bool {
		verified = append(verified, image+" "+id[:7])
		return true
	}}
	r := newRig(t, func(o *cri.Options) { o.Pulls.Credentials = k })
	sandbox := r.done("s", runSandbox(0), false).GetSandboxId()
	r.done("v", setUpVolumes(), false)
	start := startContainer(sandbox, 0)
	r.fails("c", start, journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, "is not present on the node")
	if len(verified) != 1 || verified[0] != busybox+" sha256:" {
		t.Errorf("verified for %q", verified)
	}
	// The pull for this start has proven it.
	start.GetStartContainer().PulledForStart = true
	r.done("d", start, false)
	if len(verified) != 1 {
		t.Errorf("verified for %q", verified)
	}
}
