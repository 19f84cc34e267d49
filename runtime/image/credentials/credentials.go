package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
)

// maxCandidates bounds the credentials that one pull tries: each is a pull of its own.
const maxCandidates = 20

// Options configure a Driver; RootDir and Objects must be set.
type Options struct {
	// RootDir is the agent's root directory, the first place of registry files.
	RootDir string
	// Objects returns Secrets and tokens.
	Objects objects.Getter
	// Digest returns the keyed digest of texts, in hex (objects.Store.Digest).
	Digest func(...string) string
	// Providers are the credential provider plugins; nil: none.
	Providers *Providers
	// Policy says which images are verified; nil: the pulled images, as with NeverVerifyPreloadedImages.
	Policy *Policy
	Log    *slog.Logger
}

// Driver finds credentials and verifies pods. Its methods may be called concurrently, Seed only before the first of
// them.
type Driver struct {
	opts Options

	mu      sync.Mutex
	pulled  map[string]*journaletv1.PulledImage // as ImageState.pulled
	pending map[string]string                   // images of pulls under way, by intent
}

// New returns a driver that knows of no pull.
func New(o Options) *Driver {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Policy == nil {
		o.Policy = &Policy{}
	}
	return &Driver{opts: o, pulled: map[string]*journaletv1.PulledImage{}, pending: map[string]string{}}
}

// Found is what a pull may try.
type Found struct {
	// Candidates are in the order to try them; none: the pull goes without credentials.
	Candidates []Candidate
	// Problems name the sources that could not be read, without contents.
	Problems []string
	// Values are the credentials, and what was given to plugins. Errors must not repeat them.
	Values []string
}

// Find returns the credentials for a pull: first from the Secrets that the pull names, in their order, then from the
// node's registry files, then from plugins. A source that cannot be read holds up no other.
func (d *Driver) Find(ctx context.Context, p *journaletv1.PullImage) Found {
	repository, err := registryName(p.GetImage())
	if err != nil {
		return Found{} // the pull fails for this
	}
	ring, f := d.secrets(ctx, objects.Owner{Namespace: p.GetNamespace(), API: p.GetApi()}, p.GetPullSecrets())
	f.Candidates = ring.lookup(repository)

	node := keyring{}
	config, problems := nodeConfig(d.opts.RootDir, d.opts.Log)
	node.add(config, Candidate{})
	f.Candidates = append(f.Candidates, node.lookup(repository)...)
	f.Problems = append(f.Problems, problems...)

	if d.opts.Providers != nil {
		d.opts.Providers.find(ctx, d.opts.Objects, repository, p, &f)
	}
	if n := len(f.Candidates); n > maxCandidates {
		f.Problems = append(f.Problems, fmt.Sprintf("%d more credentials are not tried", n-maxCandidates))
		f.Candidates = f.Candidates[:maxCandidates]
	}
	for i := range f.Candidates {
		c := &f.Candidates[i]
		f.Values = append(f.Values, c.Password, base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
		// Some registries take a token as the user. A user that is a part of the image's name is no secret.
		if !strings.Contains(p.GetImage(), c.Username) {
			f.Values = append(f.Values, c.Username)
		}
	}
	return f
}

// secrets returns the credentials in Secrets.
func (d *Driver) secrets(ctx context.Context, owner objects.Owner, names []string) (keyring, Found) {
	ring, f := keyring{}, Found{}
	for _, name := range names {
		s, err := d.opts.Objects.Secret(ctx, owner, name)
		switch {
		case errors.Is(err, objects.ErrNotFound):
			f.Problems = append(f.Problems, err.Error())
			continue
		case err != nil:
			d.opts.Log.Warn("a pull secret is not used", "namespace", owner.Namespace, "secret", name, "error", err)
			f.Problems = append(f.Problems, fmt.Sprintf("secret %q cannot be read", name))
			continue
		}
		config, err := ofSecret(s)
		if err != nil {
			f.Problems = append(f.Problems, fmt.Sprintf("secret %q: %s", name, err))
			continue
		}
		for _, at := range slices.Sorted(maps.Keys(config)) {
			e := config[at]
			candidate := Candidate{secret: &journaletv1.PullSecret{
				Namespace: owner.Namespace, Name: name, Uid: string(s.UID),
				Digest: d.opts.Digest("registry", e.Username, e.Password),
			}}
			ring.add(dockerConfig{at: e}, candidate)
		}
	}
	return ring, f
}

// ofSecret returns the registry file in a Secret.
func ofSecret(s *corev1.Secret) (dockerConfig, error) {
	switch s.Type {
	case corev1.SecretTypeDockerConfigJson:
		return parseConfigJSON(s.Data[corev1.DockerConfigJsonKey])
	case corev1.SecretTypeDockercfg:
		return parseDockercfg(s.Data[corev1.DockerConfigKey])
	}
	return nil, fmt.Errorf("its type is %s; only %s and %s hold credentials of registries", s.Type,
		corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
}
