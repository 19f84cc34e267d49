package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	providerapi "k8s.io/kubelet/config/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	// maxProviderFiles and maxProviderBytes bound the configuration of plugins.
	maxProviderFiles = 256
	maxProviderBytes = 1 << 20

	configGroup   = "kubelet.config.k8s.io/"
	configKind    = "CredentialProviderConfig"
	protocolGroup = "credentialprovider.kubelet.k8s.io/"
	newest        = "v1"
)

// versions are the versions of the configuration and of the protocol; in each version both have the fields of the
// newest version or fewer.
var versions = []string{newest, "v1beta1", "v1alpha1"}

// Providers are the credential provider plugins of the node, in the order of their configuration.
type Providers struct {
	plugins []*plugin
}

// LoadProviders reads the configuration of plugins, a file or a directory of files, and checks that each is in binDir.
// Both empty: no plugins, and Providers is nil. The kubelet does not start with a wrong configuration.
func LoadProviders(path, binDir string, log *slog.Logger) (*Providers, error) {
	switch {
	case path == "" && binDir == "":
		return nil, nil
	case path == "" || binDir == "":
		return nil, errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir need each other")
	}
	config, err := readProviders(path)
	if err != nil {
		return nil, fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Providers{}
	for i := range config {
		if _, err := programIn(binDir, config[i].Name); err != nil {
			return nil, fmt.Errorf("--image-credential-provider-bin-dir: provider %s: %w", config[i].Name, err)
		}
		p.plugins = append(p.plugins, &plugin{
			config: config[i], binDir: binDir, log: log, now: time.Now, timeout: pluginTimeout, cache: map[cacheKey]cached{},
		})
	}
	return p, nil
}

// Names returns the names of the plugins.
func (p *Providers) Names() (names []string) {
	if p != nil {
		for _, one := range p.plugins {
			names = append(names, one.config.Name)
		}
	}
	return names
}

// UseServiceAccounts reports whether a plugin gets tokens of service accounts.
func (p *Providers) UseServiceAccounts() bool {
	return p != nil && slices.ContainsFunc(p.plugins, func(one *plugin) bool { return one.config.TokenAttributes != nil })
}

// Observe has f called after each run of a plugin, with what it took and its error, which holds nothing that the plugin
// wrote. It is for before the first run.
func (p *Providers) Observe(f func(plugin string, took time.Duration, err error)) {
	if p != nil {
		for _, one := range p.plugins {
			one.observe = f
		}
	}
}

// readProviders reads and checks the configuration.
func readProviders(path string) ([]providerapi.CredentialProvider, error) {
	files := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if files, err = providerFiles(path); err != nil {
			return nil, err
		}
	}
	var all []providerapi.CredentialProvider
	for _, file := range files {
		config, err := readProviderFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, config.Providers...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: it has no provider; name at least one, or remove the flags", path)
	}
	names := sets.New[string]()
	var errs []error
	for i := range all {
		if names.Has(all[i].Name) {
			errs = append(errs, fmt.Errorf("provider %s: there are two of this name", all[i].Name))
		}
		names.Insert(all[i].Name)
		for _, err := range checkProvider(&all[i]) {
			errs = append(errs, fmt.Errorf("provider %q: %w", all[i].Name, err))
		}
	}
	return all, errors.Join(errs...)
}

// providerFiles returns the files of a directory that the kubelet reads, by name.
func providerFiles(dir string) ([]string, error) {
	var files []string
	for e, err := range bounded.Entries(dir) {
		if err != nil {
			return nil, err
		}
		if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, ext) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
		if len(files) > maxProviderFiles {
			return nil, fmt.Errorf("%s holds more than %d files of configuration", dir, maxProviderFiles)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no file that ends in .json, .yaml or .yml", dir)
	}
	slices.Sort(files)
	return files, nil
}

// readProviderFile decodes one file. A field that it does not know is an error, as for the kubelet.
func readProviderFile(path string) (*providerapi.CredentialProviderConfig, error) {
	data, err := bounded.ReadFile(path, maxProviderBytes)
	if err != nil {
		return nil, err
	}
	text, err := bounded.YAMLToJSONStrict(data, maxProviderBytes)
	if err != nil {
		return nil, fmt.Errorf("invalid YAML: %w", err)
	}
	config := new(providerapi.CredentialProviderConfig)
	if err := bounded.JSON(text, maxProviderBytes, config, (*json.Decoder).DisallowUnknownFields); err != nil {
		return nil, err
	}
	version, ok := strings.CutPrefix(config.APIVersion, configGroup)
	if config.Kind != configKind || !ok || !slices.Contains(versions, version) {
		return nil, fmt.Errorf("it is %s %s, want kind %s of apiVersion %s", config.APIVersion, config.Kind, configKind,
			configGroup+newest)
	}
	return config, nil
}

// checkProvider returns what the kubelet refuses of a provider.
func checkProvider(p *providerapi.CredentialProvider) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ ") {
		bad("name: want the name of a file in the directory of plugins, without slash and space")
	}
	version, ok := strings.CutPrefix(p.APIVersion, protocolGroup)
	if !ok || !slices.Contains(versions, version) {
		bad("apiVersion: found %q, want %s", p.APIVersion, protocolGroup+newest)
	}
	if len(p.MatchImages) == 0 {
		bad("matchImages: at least one is required")
	}
	for _, m := range p.MatchImages {
		if _, err := url.Parse("https://" + m); err != nil {
			bad("matchImages: %q is no registry and path", m)
		}
	}
	if d := p.DefaultCacheDuration; d == nil || d.Duration < 0 {
		bad("defaultCacheDuration: want a duration of 0 or more, such as 10m")
	}
	if t := p.TokenAttributes; t != nil {
		if version != newest {
			bad("tokenAttributes: they need apiVersion %s", protocolGroup+newest)
		}
		errs = append(errs, checkTokens(t)...)
	}
	return errs
}

func checkTokens(t *providerapi.ServiceAccountTokenAttributes) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("tokenAttributes."+format, args...)) }
	if t.ServiceAccountTokenAudience == "" {
		bad("serviceAccountTokenAudience: it is required")
	}
	switch {
	case t.RequireServiceAccount == nil:
		bad("requireServiceAccount: it is required")
	case !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0:
		bad("requiredServiceAccountAnnotationKeys: they need requireServiceAccount: true")
	}
	if t.CacheType != providerapi.TokenServiceAccountTokenCacheType &&
		t.CacheType != providerapi.ServiceAccountServiceAccountTokenCacheType {
		bad("cacheType: found %q, want %s or %s", t.CacheType, providerapi.TokenServiceAccountTokenCacheType,
			providerapi.ServiceAccountServiceAccountTokenCacheType)
	}
	seen := sets.New[string]()
	for _, k := range append(slices.Clone(t.RequiredServiceAccountAnnotationKeys),
		t.OptionalServiceAccountAnnotationKeys...) {
		if why := validation.IsQualifiedName(strings.ToLower(k)); len(why) > 0 {
			bad("serviceAccountAnnotationKeys: %q: %s", k, why[0])
		}
		if seen.Has(k) {
			bad("serviceAccountAnnotationKeys: %q is named twice", k)
		}
		seen.Insert(k)
	}
	return errs
}

// programIn returns the path of a plugin: a file of dir that may be run. A link that leads out of it is refused.
func programIn(dir, name string) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, name))
	if err != nil {
		return "", err
	}
	if filepath.Dir(path) != root {
		return "", fmt.Errorf("%s leads out of the directory, to %s; put the program itself there",
			filepath.Join(dir, name), path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is no program; check its mode", path)
	}
	return path, nil
}

// find adds what the plugins have for an image.
func (p *Providers) find(
	ctx context.Context, all objects.Getter, repository string, req *journaletv1.PullImage, f *Found,
) {
	ring := keyring{}
	for _, one := range p.plugins {
		if !one.covers(repository) {
			continue
		}
		config, candidate, values, err := one.provide(ctx, all, repository, req)
		f.Values = append(f.Values, values...)
		if err != nil {
			one.log.Warn("a credential provider failed", "provider", one.config.Name, "image", repository, "error", err)
			f.Problems = append(f.Problems, fmt.Sprintf("credential provider %s: %s", one.config.Name, err))
			continue
		}
		ring.add(config, candidate)
	}
	f.Candidates = append(f.Candidates, ring.lookup(repository)...)
}

// useAccounts reports whether a plugin for an image gets tokens of service accounts.
func (p *Providers) useAccounts(repository string) bool {
	return slices.ContainsFunc(p.plugins, func(one *plugin) bool {
		return one.config.TokenAttributes != nil && one.covers(repository)
	})
}
