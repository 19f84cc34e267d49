package credentials

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// Values of imagePullCredentialsVerificationPolicy (KEP-2535): which images on the node are only for pods that have the
// images' credentials. Preloaded images are images that this agent has not pulled.
const (
	NeverVerify                  = "NeverVerify"
	NeverVerifyPreloadedImages   = "NeverVerifyPreloadedImages"
	NeverVerifyAllowlistedImages = "NeverVerifyAllowlistedImages"
	AlwaysVerify                 = "AlwaysVerify"
)

// Policies are all values.
var Policies = []string{NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify}

// Policy says which images are verified. Its zero value is NeverVerifyPreloadedImages.
type Policy struct {
	name  string
	allow []string // images without tag and digest, or prefixes that end in a slash
}

// NewPolicy returns the policy of this name; "": the default. allowlist is for NeverVerifyAllowlistedImages: names of
// images without tag and digest, or a registry and path that end in /*.
func NewPolicy(name string, allowlist []string) (*Policy, error) {
	switch {
	case name != "" && !slices.Contains(Policies, name):
		return nil, fmt.Errorf("imagePullCredentialsVerificationPolicy: found %q, want one of %s", name,
			strings.Join(Policies, ", "))
	case len(allowlist) > 0 && name != NeverVerifyAllowlistedImages:
		return nil, fmt.Errorf("preloadedImagesVerificationAllowlist: it needs imagePullCredentialsVerificationPolicy %s",
			NeverVerifyAllowlistedImages)
	}
	p := &Policy{name: name}
	for _, pattern := range allowlist {
		if err := checkPattern(pattern); err != nil {
			return nil, fmt.Errorf("preloadedImagesVerificationAllowlist: %q: %w", pattern, err)
		}
		p.allow = append(p.allow, strings.TrimSuffix(pattern, "*"))
	}
	return p, nil
}

// checkPattern refuses what is neither an image's name nor a registry and path that end in /*.
func checkPattern(pattern string) error {
	below, wildcard := strings.CutSuffix(pattern, "/*")
	switch {
	case strings.TrimSpace(pattern) != pattern, below == "", strings.HasSuffix(pattern, "/"):
		return fmt.Errorf("want a name such as registry.example/team/app, or registry.example/team/*")
	case strings.Contains(below, "*"):
		return fmt.Errorf("an asterisk stands only at the end, behind a slash")
	case wildcard:
		return nil
	case Repository(pattern) != pattern:
		return fmt.Errorf("it has a tag or a digest; leave it out")
	}
	_, err := reference.ParseNormalizedNamed(pattern)
	return err
}

// Verifies reports whether a pod must have the credentials of an image that is on the node. pulled is whether the agent
// has pulled it.
func (p *Policy) Verifies(image string, pulled bool) bool {
	switch p.name {
	case NeverVerify:
		return false
	case AlwaysVerify:
		return true
	case NeverVerifyAllowlistedImages:
		repository := Repository(image)
		return !slices.ContainsFunc(p.allow, func(allowed string) bool {
			return allowed == repository || strings.HasSuffix(allowed, "/") && strings.HasPrefix(repository, allowed)
		})
	}
	return pulled
}
