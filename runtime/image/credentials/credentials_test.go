package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	protocol "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/must"
)

// fakeObjects are Secrets and tokens by namespace/name.
type fakeObjects struct {
	objects.Getter
	secrets map[string]*corev1.Secret
	tokens  map[string]string
}

type missing struct{ error }

func (missing) Is(target error) bool { return target == objects.ErrNotFound }

func (f *fakeObjects) Secret(_ context.Context, owner objects.Owner, name string) (*corev1.Secret, error) {
	if s := f.secrets[owner.Namespace+"/"+name]; s != nil {
		return s, nil
	}
	if name == "unreadable" {
		return nil, errors.New("a.yaml:1: no")
	}
	return nil, missing{fmt.Errorf("secret %q not found", name)}
}

func (f *fakeObjects) Token(
	_ context.Context, pod *corev1.Pod, s *corev1.ServiceAccountTokenProjection,
) (string, error) {
	if t := f.tokens[pod.Namespace+"/"+pod.Spec.ServiceAccountName+"/"+s.Audience]; t != "" {
		return t, nil
	}
	return "", missing{errors.New("no token")}
}

func (f *fakeObjects) put(namespace, name string, kind corev1.SecretType, text string) {
	key := corev1.DockerConfigJsonKey
	if kind == corev1.SecretTypeDockercfg {
		key = corev1.DockerConfigKey
	}
	f.secrets[namespace+"/"+name] = &corev1.Secret{Type: kind, Data: map[string][]byte{key: []byte(text)}}
}

func digestOf(texts ...string) string { return "digest of " + strings.Join(texts, ",") }

// newDriver returns a driver that has no files of the node except the files in its root directory.
func newDriver(t *testing.T, change func(*Options)) (*Driver, *fakeObjects, string) {
	t.Helper()
	root := t.TempDir()
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Chdir(root)
	f := &fakeObjects{secrets: map[string]*corev1.Secret{}, tokens: map[string]string{}}
	o := Options{RootDir: root, Objects: f, Digest: digestOf}
	if change != nil {
		change(&o)
	}
	return New(o), f, root
}

// entries returns a registry file with entries.
func entries(all ...string) string {
	var parts []string
	for _, at := range all {
		at, password, _ := strings.Cut(at, "=")
		parts = append(parts, fmt.Sprintf(`%q: {"username": "user", "password": %q}`, at, password))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func passwords(f Found) string {
	var all []string
	for _, c := range f.Candidates {
		all = append(all, c.Password)
	}
	return strings.Join(all, " ")
}

func TestCredentialsAreTriedInTheKubeletsOrder(t *testing.T) {
	d, f, root := newDriver(t, nil)
	f.put("ns", "one", corev1.SecretTypeDockerConfigJson,
		`{"auths": `+entries("registry.example=one", "registry.example/team=team", "other.example=other")+`}`)
	f.put("ns", "two", corev1.SecretTypeDockercfg, entries("https://registry.example/v2/=two", "*.example=wild"))
	must.OK(t, os.WriteFile(filepath.Join(root, "config.json"),
		[]byte(`{"auths": {"registry.example": {"auth": "dXNlcjpub2Rl"}}}`), 0o600))
	pull := &journaletv1.PullImage{Image: "registry.example/team/app:1", Namespace: "ns",
		PullSecrets: []string{"two", "none", "one", "unreadable"}}
	found := d.Find(t.Context(), pull)
	if got := passwords(found); got != "team two one wild node" {
		t.Errorf("tries %q", got)
	}
	if got := strings.Join(found.Problems, "; "); got != `secret "none" not found; secret "unreadable" cannot be read` {
		t.Errorf("problems %q", got)
	}
	if !slices.Contains(found.Values, "node") || !slices.Contains(found.Values, "dXNlcjpub2Rl") {
		t.Errorf("values %q", found.Values)
	}
	used := found.Candidates[0].Used("registry.example/team/app")
	if s := used.GetSecrets(); len(s) != 1 || used.GetNodeAccessible() || s[0].GetName() != "one" ||
		s[0].GetNamespace() != "ns" || s[0].GetDigest() != "digest of registry,user,team" {
		t.Errorf("a pull with the first is recorded as %v", used)
	}
	if used := found.Candidates[4].Used("x"); !used.GetNodeAccessible() || len(used.GetSecrets()) > 0 {
		t.Errorf("a pull with the node's is recorded as %v", used)
	}
	if used := (*Candidate)(nil).Used("x"); !used.GetNodeAccessible() {
		t.Errorf("a pull without credentials is recorded as %v", used)
	}
}

func TestHubHasThreeNames(t *testing.T) {
	d, f, _ := newDriver(t, nil)
	for _, at := range []string{"https://index.docker.io/v1/", "docker.io", "index.docker.io"} {
		f.put("ns", "s", corev1.SecretTypeDockercfg, entries(at+"=hub"))
		for _, image := range []string{"nginx", "team/app:1", "docker.io/team/app"} {
			pull := &journaletv1.PullImage{Image: image, Namespace: "ns", PullSecrets: []string{"s"}}
			if got := passwords(d.Find(t.Context(), pull)); got != "hub" {
				t.Errorf("%s with %s: %q", image, at, got)
			}
		}
	}
}

func TestUnreadableSourcesAreNamedWithoutContents(t *testing.T) {
	d, f, root := newDriver(t, nil)
	f.put("ns", "a", corev1.SecretTypeDockerConfigJson, `{"auths": {"r.example": {"auth": "hunter2"}}}`)
	f.put("ns", "b", corev1.SecretTypeDockercfg, `{"r.example": "hunter2"}`)
	f.put("ns", "c", corev1.SecretTypeOpaque, `hunter2`)
	must.OK(t, os.WriteFile(filepath.Join(root, ".dockercfg"), []byte(`hunter2`), 0o600))
	found := d.Find(t.Context(), &journaletv1.PullImage{Image: "r.example/app", Namespace: "ns",
		PullSecrets: []string{"a", "b", "c"}})
	want := `secret "a": a field auth is not the base64 text of USER:PASSWORD; ` +
		`secret "b": it is no registry file; write it as docker login does; ` +
		`secret "c": its type is Opaque; only kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg hold credentials ` +
		`of registries; ` + root + "/.dockercfg cannot be read"
	// The root directory and the working directory are one here.
	if got := strings.Join(slices.Compact(found.Problems), "; "); got != want || len(found.Candidates) > 0 {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFirstRegistryFileCounts(t *testing.T) {
	d, _, root := newDriver(t, nil)
	at := func(path, password string) {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700))
		text := entries("r.example=" + password)
		if filepath.Base(path) == configJSON {
			text = `{"auths": ` + text + `}`
		}
		must.OK(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	pull := &journaletv1.PullImage{Image: "r.example/app"}
	for _, c := range []struct{ path, password string }{
		{"home/.dockercfg", "older-home"}, {".dockercfg", "older"}, {"home/.docker/config.json", "home"},
		{"config.json", "root"},
	} {
		at(c.path, c.password)
		if got := passwords(d.Find(t.Context(), pull)); got != c.password {
			t.Errorf("with %s: %q", c.path, got)
		}
	}
	// One that cannot be read does not hide the next.
	must.OK(t, os.WriteFile(filepath.Join(root, configJSON), make([]byte, maxConfigBytes+1), 0o600))
	if got := passwords(d.Find(t.Context(), pull)); got != "home" {
		t.Errorf("beside a file that is too large: %q", got)
	}
}

func TestCandidatesAreBounded(t *testing.T) {
	d, f, _ := newDriver(t, nil)
	var names []string
	for i := range maxCandidates + 3 {
		names = append(names, fmt.Sprint("s", i))
		f.put("ns", names[i], corev1.SecretTypeDockercfg, entries(fmt.Sprint("r.example=", i)))
	}
	found := d.Find(t.Context(), &journaletv1.PullImage{Image: "r.example/app", Namespace: "ns", PullSecrets: names})
	if len(found.Candidates) != maxCandidates || strings.Join(found.Problems, "") != "3 more credentials are not tried" {
		t.Errorf("%d candidates, problems %q", len(found.Candidates), found.Problems)
	}
}

// pulledWith is the outcome of a pull.
func pulledWith(intent, id string, c *journaletv1.PullCredentials) *journaletv1.Record {
	return fact(&journaletv1.CallFinished{IntentId: intent, ImageRef: id, PullCredentials: c})
}

func fact(f proto.Message) *journaletv1.Record {
	return &journaletv1.Record{Time: timestamppb.Now(), Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(f)}}
}

// request is the step that requests a pull, and the id of its intent.
func request(image string) (*journaletv1.Record, string) {
	return &journaletv1.Record{Epoch: 1, Actor: messages.Image.Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Cause: 7, Decisions: []*journaletv1.Event{
			messages.NewEvent(messages.NewCall(&journaletv1.PullImage{Image: image})),
		}}}}, messages.DecisionID(1, 7, messages.Image, 0)
}

func TestPodWithoutTheCredentialsMustPull(t *testing.T) {
	d, f, _ := newDriver(t, nil)
	f.put("ns", "one", corev1.SecretTypeDockercfg, entries("r.example=x"))
	f.put("ns", "same", corev1.SecretTypeDockercfg, entries("r.example=x"))
	f.put("ns", "other", corev1.SecretTypeDockercfg, entries("r.example=y"))
	f.put("ns", "elsewhere", corev1.SecretTypeDockercfg, entries("other.example=x"))
	f.put("next", "one", corev1.SecretTypeDockercfg, entries("r.example=z"))
	pulls := func(want bool, namespace, image, id string, secrets ...string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		for _, s := range secrets {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
		}
		if got := d.MustPull(t.Context(), pod, image, id); got != want {
			t.Errorf("a pod of %s with %q must pull %s: %v", namespace, secrets, image, got)
		}
	}
	const app = "r.example/app:1"
	still := func(want bool, intent string, secrets ...string) {
		t.Helper()
		pull := &journaletv1.PullImage{Image: app, Namespace: "ns", PullSecrets: secrets}
		if got := d.StillPulls(t.Context(), pull, intent, "sha256:a"); got != want {
			t.Errorf("the pods of a pull with %q still pull it: %v", secrets, got)
		}
	}
	pulls(false, "ns", app, "sha256:a") // preloaded
	rec, intent := request(app)
	d.Stored(rec)
	pulls(true, "ns", app, "sha256:a", "one") // the pull may have brought it
	still(true, "another", "one")
	still(false, intent, "one") // it has not begun
	d.Stored(pulledWith(intent, "sha256:a", &journaletv1.PullCredentials{Repository: "r.example/app",
		Secrets: []*journaletv1.PullSecret{{Namespace: "ns", Name: "one", Digest: digestOf("registry", "user", "x")}}}))
	pulls(true, "ns", app, "sha256:a")
	pulls(false, "ns", app, "sha256:a", "none", "one")
	pulls(false, "ns", app, "sha256:a", "same")
	still(true, "next")
	still(false, "next", "same")
	still(true, "next", "other")
	pulls(true, "ns", app, "sha256:a", "other")
	pulls(true, "ns", app, "sha256:a", "elsewhere")
	pulls(true, "next", app, "sha256:a", "one")
	pulls(true, "ns", "r.example/copy:1", "sha256:a", "one") // another repository with the same image
	pulls(false, "ns", app, "sha256:b")
	// The Secret holds other credentials by now: it is the same Secret.
	f.put("ns", "one", corev1.SecretTypeDockercfg, entries("r.example=new"))
	pulls(false, "ns", app, "sha256:a", "one")
	// The next pull needed none.
	d.Stored(pulledWith(intent, "sha256:a",
		&journaletv1.PullCredentials{Repository: "r.example/app", NodeAccessible: true}))
	pulls(false, "next", app, "sha256:a")
}

func podOf(namespace, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec: corev1.PodSpec{ServiceAccountName: account}}
}

func imageResponse() *protocol.CredentialProviderResponse {
	return &protocol.CredentialProviderResponse{CacheKeyType: protocol.ImagePluginCacheKeyType}
}

func TestPolicies(t *testing.T) {
	verified := func(p *Policy, image string) string {
		return fmt.Sprint(p.Verifies(image, true), p.Verifies(image, false))
	}
	for name, want := range map[string]string{
		"": "true false", NeverVerify: "false false", NeverVerifyPreloadedImages: "true false", AlwaysVerify: "true true",
	} {
		p, err := NewPolicy(name, nil)
		must.OK(t, err)
		if got := verified(p, "r.example/app"); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	p, err := NewPolicy(NeverVerifyAllowlistedImages, []string{"r.example/app", "r.example/team/*", "nginx"})
	must.OK(t, err)
	for image, want := range map[string]string{
		"r.example/app:1": "false false", "r.example/app@sha256:" + strings.Repeat("0", 64): "false false",
		"r.example/application": "true true", "r.example/team/x/y:2": "false false", "r.example/team": "true true",
		"nginx:1": "false false", "docker.io/library/nginx": "true true",
	} {
		if got := verified(p, image); got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
	for _, c := range []struct{ name, pattern string }{
		{"Sometimes", ""}, {AlwaysVerify, "r.example/app"}, {NeverVerifyAllowlistedImages, " a"},
		{NeverVerifyAllowlistedImages, ""}, {NeverVerifyAllowlistedImages, "/*"}, {NeverVerifyAllowlistedImages, "*"},
		{NeverVerifyAllowlistedImages, "a*/b"}, {NeverVerifyAllowlistedImages, "r.example/app:1"},
		{NeverVerifyAllowlistedImages, "UPPER"}, {NeverVerifyAllowlistedImages, "r.example/"},
	} {
		list := []string{c.pattern}
		if c.name == "Sometimes" {
			list = nil
		}
		if _, err := NewPolicy(c.name, list); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
}
