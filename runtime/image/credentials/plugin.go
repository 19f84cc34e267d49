package credentials

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	providerapi "k8s.io/kubelet/config/v1"
	protocol "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/program"
)

const (
	// pluginTimeout bounds one run of a plugin (kubelet: 1 min).
	pluginTimeout = time.Minute
	// pluginWait bounds the wait for the output of a plugin that was killed and whose children hold it open.
	pluginWait = time.Second
	// maxOutputBytes bounds what a plugin writes.
	maxOutputBytes = 1 << 20
	// maxCached bounds the outcomes that are kept of one plugin.
	maxCached = 1000
)

// plugin runs one credential provider and keeps its outcomes for as long as it says.
type plugin struct {
	config  providerapi.CredentialProvider
	binDir  string
	log     *slog.Logger
	now     func() time.Time
	timeout time.Duration
	// observe receives each run; nil: nothing does.
	observe func(plugin string, took time.Duration, err error)

	mu    sync.Mutex
	cache map[cacheKey]cached
}

// cacheKey is for what an outcome is kept: an image, a registry or all, and with tokens for whom.
type cacheKey struct {
	images  string // of all images: empty
	account string
	token   [sha256.Size]byte // of cacheType Token
}

type cached struct {
	config dockerConfig
	until  time.Time
}

func (p *plugin) covers(repository string) bool {
	return slices.ContainsFunc(p.config.MatchImages, func(m string) bool { return matches(m, repository) })
}

// provide returns what the plugin has for an image, and as whose it counts. values must not be shown.
func (p *plugin) provide(
	ctx context.Context, all objects.Getter, repository string, req *journaletv1.PullImage,
) (config dockerConfig, candidate Candidate, values []string, err error) {
	r := protocol.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: p.config.APIVersion, Kind: "CredentialProviderRequest"}, Image: repository,
	}
	key := cacheKey{}
	if t := p.config.TokenAttributes; t != nil {
		switch {
		case req.GetServiceAccount() == "" && *t.RequireServiceAccount:
			return nil, candidate, nil, nil
		case req.GetServiceAccount() != "" && len(t.RequiredServiceAccountAnnotationKeys) > 0:
			// No file has annotations of service accounts. As by the kubelet, an account without them has not opted in.
			return nil, candidate, nil, nil
		case req.GetServiceAccount() != "":
			if r.ServiceAccountToken, err = p.token(ctx, all, req); err != nil {
				return nil, candidate, nil, err
			}
			values = append(values, r.ServiceAccountToken)
			candidate.account = accountID(req.GetNamespace(), req.GetServiceAccount())
			key.account = candidate.account
			if t.CacheType == providerapi.TokenServiceAccountTokenCacheType {
				key.token = sha256.Sum256([]byte(r.ServiceAccountToken))
			}
		}
	}
	if config, ok := p.kept(repository, key); ok {
		return config, candidate, values, nil
	}
	begun := p.now()
	out, err := p.run(ctx, &r)
	if p.observe != nil {
		p.observe(p.config.Name, p.now().Sub(begun), err)
	}
	if err != nil {
		return nil, candidate, values, err
	}
	config, err = p.keep(repository, key, r.ServiceAccountToken, out)
	return config, candidate, values, err
}

// accountID is how a service account is recorded: its UID is known only with an API server.
func accountID(namespace, name string) string { return image.ObjectID(namespace, name, "") }

func (p *plugin) token(ctx context.Context, all objects.Getter, req *journaletv1.PullImage) (string, error) {
	if req.GetApi() {
		return "", errors.New("it wants a token of a service account, which this version has for static pods only")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: req.GetNamespace()}}
	pod.Spec.ServiceAccountName = req.GetServiceAccount()
	return all.Token(ctx, pod, &corev1.ServiceAccountTokenProjection{
		Audience: p.config.TokenAttributes.ServiceAccountTokenAudience,
	})
}

// kept returns an earlier outcome: for the image, its registry, or all images.
func (p *plugin) kept(repository string, key cacheKey) (dockerConfig, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	registry, _, _ := strings.Cut(repository, "/")
	for _, key.images = range []string{repository, registry, ""} {
		if c, ok := p.cache[key]; ok && p.now().Before(c.until) {
			return c.config, true
		}
	}
	return nil, false
}

// keep checks an outcome and keeps it for as long as it says.
func (p *plugin) keep(
	repository string, key cacheKey, token string, out *protocol.CredentialProviderResponse,
) (dockerConfig, error) {
	config := dockerConfig{}
	for at, auth := range out.Auth {
		if token != "" && auth.Password == token &&
			p.config.TokenAttributes.CacheType != providerapi.TokenServiceAccountTokenCacheType {
			return nil, errors.New("its password is the token of the service account, which needs cacheType Token")
		}
		config[at] = dockerEntry{Username: auth.Username, Password: auth.Password}
	}
	switch out.CacheKeyType {
	case protocol.ImagePluginCacheKeyType:
		key.images = repository
	case protocol.RegistryPluginCacheKeyType:
		key.images, _, _ = strings.Cut(repository, "/")
	case protocol.GlobalPluginCacheKeyType:
		key.images = ""
	default:
		return nil, errors.New("its cacheKeyType is none of Image, Registry and Global")
	}
	lasts := p.config.DefaultCacheDuration.Duration
	if out.CacheDuration != nil {
		lasts = out.CacheDuration.Duration
	}
	if lasts <= 0 {
		return config, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for k, c := range p.cache {
		if !now.Before(c.until) || len(p.cache) >= maxCached {
			delete(p.cache, k)
		}
	}
	p.cache[key] = cached{config, now.Add(lasts)}
	return config, nil
}

// run runs the plugin once. An error holds nothing that the plugin wrote: it may hold credentials.
func (p *plugin) run(
	ctx context.Context, r *protocol.CredentialProviderRequest,
) (*protocol.CredentialProviderResponse, error) {
	path, err := programIn(p.binDir, p.config.Name)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(r)
	if err != nil {
		return nil, errors.New("its request cannot be encoded")
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	out, unread := &limited{stop: cancel}, &limited{stop: cancel}
	cmd := program.Command(ctx, path, p.config.Args...)
	cmd.Env = p.environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), out, unread
	// A group of its own: what the plugin starts ends with it.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = pluginWait
	err = cmd.Run()
	switch {
	case out.full || unread.full:
		return nil, fmt.Errorf("it wrote more than %d bytes", maxOutputBytes)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it did not end within %s", p.timeout)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w, with %d bytes of error output, which is withheld; run it by hand", err, len(unread.data))
	}
	return p.decode(out.data)
}

// environment returns the environment of every program, how to reach servers, and what the configuration sets.
func (p *plugin) environment() []string {
	env := program.Environment(program.Network()...)
	for _, e := range p.config.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}

// decode reads a plugin's output. As the kubelet it refuses fields that it does not know.
func (p *plugin) decode(data []byte) (*protocol.CredentialProviderResponse, error) {
	response := new(protocol.CredentialProviderResponse)
	var kind metav1.TypeMeta
	if bounded.JSON(data, maxOutputBytes, &kind) != nil {
		return nil, errors.New("its output is not JSON")
	}
	if kind.APIVersion != p.config.APIVersion || kind.Kind != "CredentialProviderResponse" {
		return nil, fmt.Errorf("its output is no CredentialProviderResponse of %s", p.config.APIVersion)
	}
	if bounded.JSON(data, maxOutputBytes, response, (*json.Decoder).DisallowUnknownFields) != nil {
		return nil, errors.New("its output is no valid CredentialProviderResponse")
	}
	return response, nil
}

// limited keeps what is written to it, and stops its writer at a limit. A bytes.Buffer would read without one.
type limited struct {
	data []byte
	stop func()
	full bool
}

func (l *limited) Write(b []byte) (int, error) {
	if len(l.data)+len(b) > maxOutputBytes {
		l.full = true
		l.stop()
		return 0, bounded.ErrTooLarge
	}
	l.data = append(l.data, b...)
	return len(b), nil
}
