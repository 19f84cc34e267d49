package oracle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/credentialprovider/secrets"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"
	"k8s.io/kubernetes/pkg/util/parsers"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/oracle/pods"
)

// credentialsCase is the pull of an image.
type credentialsCase struct {
	Image string `json:"image"`
	// Secrets are the pull secrets of the pod, in order.
	Secrets []pullSecret `json:"secrets,omitempty"`
	// Policy and Allowlist say which images are verified.
	Policy    string   `json:"policy,omitempty"`
	Allowlist []string `json:"allowlist,omitempty"`
	// Pulled is whether the agent has pulled the image before.
	Pulled bool `json:"pulled,omitempty"`
}

// pullSecret is a Secret. The data is text, so that a case can be read.
type pullSecret struct {
	Type corev1.SecretType `json:"type"`
	Key  string            `json:"key"`
	Data string            `json:"data"`
}

// generateCredentials returns a pull with Secrets whose entries nearly match the image.
func generateCredentials(m *pods.Generator) string {
	domain := func() string {
		return pods.Pick(m, "", "", "r.example/", "r.example/", "r.example/", "r.example/", "r.example:5000/",
			"a.b.r.example/", "localhost/",
			"localhost:5000/", "docker.io/", "index.docker.io/", "127.0.0.1/", "[::1]:5000/")
	}
	c := credentialsCase{
		Image: domain() + pods.Pick(m, "app", "team/app", "team/sub/app", "library/app", "te_am/app") +
			pods.Pick(m, "", "", ":1", "@sha256:"+strings.Repeat("0", 64), ":1@sha256:"+strings.Repeat("a", 64),
				pods.Pick(m, "", "", ":", "@x")),
		Policy: pods.Pick(m, "NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages",
			"NeverVerifyAllowlistedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify", "Other"),
		Pulled: m.Chance(50),
	}
	for range 1 + m.N(3) {
		c.Secrets = append(c.Secrets, generatePullSecret(m))
	}
	if c.Policy == "NeverVerifyAllowlistedImages" {
		for range m.N(4) {
			c.Allowlist = append(c.Allowlist, domain()+pods.Pick(m,
				"app", "team/app", "team/*", "*", "team*", "app:1", " app", "team/", "library/app"))
		}
	}
	return toYAML(c)
}

func generatePullSecret(m *pods.Generator) pullSecret {
	s := pullSecret{Type: corev1.SecretTypeDockerConfigJson, Key: corev1.DockerConfigJsonKey}
	var entries []string
	for i := range m.N(4) {
		at := pods.Pick(m, "", "", "", "https://", "http://", "ftp://") +
			pods.Pick(m, "r.example", "r.example", "r.example", "*.example", "*.example", "*", "*.*", "r.*", "?.example",
				"[qr].example", "r.example:5000",
				"*.b.r.example", "*.r.example", "localhost", "localhost:5000", "docker.io", "index.docker.io", "%zz", "",
				"R.example", "127.0.0.1", "[::1]:5000", "a b") +
			pods.Pick(m, "", "", "/", "/team", "/team/", "/team/app", "/app", "/v1/", "/v2/", "/v1", "/v2/team", "/library",
				"/te", "?x")
		value := pods.Pick(m,
			fmt.Sprintf(`{"username": "u%d", "password": "p"}`, i), fmt.Sprintf(`{"auth": "dTpw%s", "username": "x"}`, "OjE="),
			`{"auth": "dTpw"}`, `{"Username": "U", "PASSWORD": "P"}`, `{"email": "e", "password": "only"}`, `{}`, `null`,
			`{"auth": ""}`, `{"username": "u", "password": "p", "identitytoken": "t"}`)
		if m.Chance(3) {
			value = pods.Pick(m, `{"auth": "!"}`, `{"auth": "dXA="}`, `"text"`, `{"password": 1}`, `{"auth": "dTpw="}`)
		}
		entries = append(entries, fmt.Sprintf("%q: %s", at, value))
	}
	s.Data = "{" + strings.Join(entries, ", ") + "}"
	switch {
	case m.Chance(30):
		s.Type, s.Key = corev1.SecretTypeDockercfg, corev1.DockerConfigKey
	case m.Chance(90):
		s.Data = `{"auths": ` + s.Data + pods.Pick(m, "", `, "credsStore": "x"`, `, "HttpHeaders": {"a": "b"}`) + "}"
	}
	if m.Chance(5) {
		s.Type = pods.Pick(m, corev1.SecretTypeOpaque, corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson)
	}
	if m.Chance(2) {
		s.Data = pods.Pick(m, "", "x", "[]", "null", `{"auths": []}`)
	}
	return s
}

// pullSecrets are the Secrets of a case, by their number.
type pullSecrets struct {
	objects.Getter
	all []corev1.Secret
}

func (p pullSecrets) Secret(_ context.Context, _ objects.Owner, name string) (*corev1.Secret, error) {
	for i := range p.all {
		if p.all[i].Name == name {
			return &p.all[i], nil
		}
	}
	return nil, errors.New("no such secret")
}

// compareCredentials compares which credentials a pull tries, and whether an image on the node is verified.
func compareCredentials(c *testCase) {
	w := credentialsCase{}
	if yaml.Unmarshal([]byte(c.text), &w) != nil {
		return
	}
	all, req := pullSecrets{}, &journaletv1.PullImage{Image: w.Image, Namespace: "ns"}
	for i, s := range w.Secrets {
		secret := corev1.Secret{Type: s.Type, Data: map[string][]byte{s.Key: []byte(s.Data)}}
		secret.Name = fmt.Sprint("s", i)
		all.all = append(all.all, secret)
		req.PullSecrets = append(req.PullSecrets, secret.Name)
	}
	repository, _, _, err := parsers.ParseImageName(w.Image)
	if err != nil {
		c.count("no name of an image")
		return
	}
	// Neither side has a registry file of the node.
	check("set the home", os.Setenv("HOME", "/nonexistent"))
	found := credentials.New(credentials.Options{RootDir: "/nonexistent", Objects: all,
		Digest: func(texts ...string) string { return strings.Join(texts, " ") }}).Find(context.Background(), req)
	var ours []string
	for _, o := range found.Candidates {
		used := o.Used("").GetSecrets()[0].GetName()
		ours = append(ours, fmt.Sprintf("%s:%s of %s", o.Username, o.Password, used))
	}
	want := strings.Join(ours, "\n")
	theirs, err := theirCredentials(all.all, repository)
	if err != nil {
		c.differs("a secret that cannot be read", "the others are tried", "the pull fails")
		return
	}
	if theirs != "" {
		c.count("with credentials")
	}
	// Two entries of a Secret for the same registry are in no order.
	for range 50 {
		if theirs == want {
			break
		}
		theirs, err = theirCredentials(all.all, repository)
		check("the kubelet", err)
	}
	c.differs("credentials", want, theirs)
	comparePolicies(c, &w)
	comparePulls(c, &w)
}

func theirCredentials(all []corev1.Secret, repository string) (string, error) {
	ring, err := secrets.MakeDockerKeyring(all, credentialprovider.UnionDockerKeyring{})
	if err != nil {
		return "", err
	}
	configs, _ := ring.Lookup(repository)
	var lines []string
	for _, o := range configs {
		lines = append(lines, fmt.Sprintf("%s:%s of %s", o.Username, o.Password, o.Source.Secret.Name))
	}
	return strings.Join(lines, "\n"), nil
}

func comparePolicies(c *testCase, w *credentialsCase) {
	ours, ourErr := credentials.NewPolicy(w.Policy, w.Allowlist)
	theirs, theirErr := pullmanager.NewImagePullCredentialVerificationPolicy(
		kubeletconfig.ImagePullCredentialsVerificationPolicy(w.Policy), w.Allowlist)
	if ourErr != nil || theirErr != nil {
		c.count("policies that are refused")
		c.differs("which policies are refused", ourErr != nil, theirErr != nil)
		return
	}
	c.differs("which images are verified", ours.Verifies(w.Image, w.Pulled),
		theirs.RequireCredentialVerificationForImage(w.Image, w.Pulled))
}
