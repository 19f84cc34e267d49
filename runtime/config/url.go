package config

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/source/url"
)

// headerFlag is --manifest-url-header, as the kubelet takes it: name:value pairs separated by commas, the flag as often as
// one likes. It is never printed, and takes everything: pflag would print what it refuses. Validate judges it.
type headerFlag struct{ to *map[string][]string }

var _ pflag.Value = headerFlag{}

func (headerFlag) String() string { return "" }

// Type is what --help shows for the value.
func (headerFlag) Type() string { return "name:value,..." }

// Set adds headers.
func (f headerFlag) Set(text string) error {
	if *f.to == nil {
		*f.to = map[string][]string{}
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, ":")
		switch {
		case strings.TrimSpace(pair) == "":
		case !ok:
			(*f.to)[""] = nil
		default:
			name = strings.TrimSpace(name)
			(*f.to)[name] = append((*f.to)[name], strings.TrimSpace(value))
		}
	}
	return nil
}

// URLHeader is StaticPodURLHeader as requests send it.
func (c *Config) URLHeader() http.Header {
	out := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(c.StaticPodURLHeader)) {
		for _, v := range c.StaticPodURLHeader[name] {
			out.Add(name, v)
		}
	}
	return out
}

// validateURL judges the manifest URL and its headers. Both may hold secrets: no error quotes them.
func (c *Config) validateURL() []error {
	var errs []error
	if c.StaticPodURL != "" {
		if _, err := url.Parse(c.StaticPodURL); err != nil {
			errs = append(errs, fmt.Errorf("staticPodURL (--manifest-url): %w", err))
		}
	}
	for i, name := range slices.Sorted(maps.Keys(c.StaticPodURLHeader)) {
		if !isToken(name) {
			errs = append(errs, fmt.Errorf("staticPodURLHeader (--manifest-url-header): name %d of the sorted names is none of a header; write name:value, and give values with commas in the configuration file", i+1))
			continue
		}
		for _, v := range c.StaticPodURLHeader[name] {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				errs = append(errs, fmt.Errorf("staticPodURLHeader (--manifest-url-header): a value of %s has control characters, such as the end of a line; take them out", name))
			}
		}
	}
	if c.HTTPCheckFrequency < minHTTPCheck || c.HTTPCheckFrequency > maxHTTPCheck {
		errs = append(errs, fmt.Errorf("httpCheckFrequency (--http-check-frequency): %v is not within %v and %v", c.HTTPCheckFrequency, minHTTPCheck, maxHTTPCheck))
	}
	return errs
}

// isToken tells whether a text is the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
