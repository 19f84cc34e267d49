package credentials

import (
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Docker Hub has three names: in images, in registry files, and without any.
const (
	hubDomain   = "docker.io"
	hubRegistry = "index.docker.io"
)

// Candidate is one credential that a pull may try.
type Candidate struct {
	Username, Password string

	secret  *journaletv1.PullSecret // of a Secret, with the digest of the credential
	account string                  // of a service account, as namespace/name/uid
}

// Used returns what a pull of repository with the candidate is recorded with. A nil candidate is a pull without any:
// every pod may use the image, as with a credential of the node.
func (c *Candidate) Used(repository string) *journaletv1.PullCredentials {
	used := &journaletv1.PullCredentials{Repository: repository}
	switch {
	case c != nil && c.secret != nil:
		used.Secrets = []*journaletv1.PullSecret{c.secret}
	case c != nil && c.account != "":
		used.ServiceAccounts = []string{c.account}
	default:
		used.NodeAccessible = true
	}
	return used
}

// keyring holds credentials by the registry and path that they are for, without a scheme.
type keyring map[string][]Candidate

// add adds the entries of one registry file. The key of an entry may have a scheme, and the version of a registry's API
// as its path. An entry whose key is no URL is ignored, as by the kubelet.
func (k keyring) add(config dockerConfig, candidate Candidate) {
	for _, at := range slices.Sorted(maps.Keys(config)) {
		whole := at
		if !strings.HasPrefix(at, "https://") && !strings.HasPrefix(at, "http://") {
			whole = "https://" + at
		}
		u, err := url.Parse(whole)
		if err != nil {
			continue
		}
		below := u.Path
		if strings.HasPrefix(below, "/v2/") || strings.HasPrefix(below, "/v1/") {
			below = below[len("/v1"):]
		}
		if below == "/" {
			below = ""
		}
		c := candidate
		c.Username, c.Password = config[at].Username, config[at].Password
		k[u.Host+below] = append(k[u.Host+below], c)
	}
}

// lookup returns the credentials for a repository, in the order to try them: the credentials of the more exact keys
// first, and the credentials of one key in the order of their addition.
func (k keyring) lookup(repository string) (found []Candidate) {
	index := slices.Sorted(maps.Keys(k))
	slices.Reverse(index)
	for _, key := range index {
		if matches(key, repository) {
			found = append(found, k[key]...)
		}
	}
	if len(found) == 0 && ofHub(repository) {
		return slices.Clone(k[hubRegistry])
	}
	return found
}

// matches reports whether a pattern covers an image: the same port, as many parts of the domain, and a path that begins
// with the pattern's. Each part of the pattern's domain may hold wildcards.
func matches(pattern, image string) bool {
	p, err := url.Parse("https://" + pattern)
	if err != nil {
		return false
	}
	i, err := url.Parse("https://" + image)
	if err != nil {
		return false
	}
	globs, globPort := domainOf(p)
	parts, port := domainOf(i)
	if globPort != port || len(globs) != len(parts) || !strings.HasPrefix(i.Path, p.Path) {
		return false
	}
	for n, glob := range globs {
		if ok, err := path.Match(glob, parts[n]); err != nil || !ok {
			return false
		}
	}
	return true
}

func domainOf(u *url.URL) (parts []string, port string) {
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		host, port = u.Host, ""
	}
	return strings.Split(host, "."), port
}

// ofHub reports whether an image is Docker Hub's: its name has no registry, or that one.
func ofHub(image string) bool {
	first, _, more := strings.Cut(image, "/")
	switch {
	case first == "":
		return false
	case !more, first == hubDomain, first == hubRegistry:
		return true
	}
	return !strings.ContainsAny(first, ".:")
}

// registryName returns the name of an image with its registry, without tag and digest: docker.io/library/nginx.
func registryName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err
	}
	return named.Name(), nil
}

// Repository returns the name of an image as the manifest has it, without tag and digest.
func Repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[:i]
	}
	return image
}
