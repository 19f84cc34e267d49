package config

import (
	"fmt"
	"maps"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/source/url"
)

// headerFlag is --manifest-url-header, in the kubelet's form: name:value pairs separated by commas, in any number of
// flags. It is never printed and accepts any text, since pflag prints what it rejects. Validate checks it.
type headerFlag struct{ to *map[string][]string }

var _ pflag.Value = headerFlag{}

func (headerFlag) String() string { return "" }

// Type returns the form of the value for --help.
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

// URLHeader returns StaticPodURLHeader as an http.Header.
func (c *Config) URLHeader() http.Header {
	out := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(c.StaticPodURLHeader)) {
		for _, v := range c.StaticPodURLHeader[name] {
			out.Add(name, v)
		}
	}
	return out
}

// shownSecrets returns a problem for each flag whose value is likely a secret: every user of the machine can read the
// command line of a process.
func (c *Config) shownSecrets(given func(string) bool) []Problem {
	var out []Problem
	shown := func(flag, field, what string) {
		out = append(out, Problem{File: "--" + flag, Field: field, Message: what + " on the command line shows in ps to " +
			"every user of this machine; put it as " + field + " into the --config file, with mode 0600"})
	}
	if u, err := neturl.Parse(c.StaticPodURL); given("manifest-url") && err == nil && (u.User != nil || u.RawQuery != "") {
		shown("manifest-url", "staticPodURL", "a URL with a user or a query")
	}
	if given("manifest-url-header") {
		shown("manifest-url-header", "staticPodURLHeader", "a header")
	}
	return out
}

// validateURL validates the manifest URL and its headers. Both may hold secrets: no error quotes them.
func (c *Config) validateURL() []error {
	var errs []error
	if c.StaticPodURL != "" {
		if _, err := url.Parse(c.StaticPodURL); err != nil {
			errs = append(errs, fmt.Errorf("staticPodURL (--manifest-url): %w", err))
		}
	}
	for i, name := range slices.Sorted(maps.Keys(c.StaticPodURLHeader)) {
		if !isToken(name) {
			errs = append(errs, fmt.Errorf("staticPodURLHeader (--manifest-url-header): name %d of the sorted names is not "+
				"valid; write name:value, and put values with commas into the configuration file", i+1))
			continue
		}
		for _, v := range c.StaticPodURLHeader[name] {
			if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				errs = append(errs, fmt.Errorf("staticPodURLHeader (--manifest-url-header): a value of %s has control "+
					"characters, such as a line break; remove them", name))
			}
		}
	}
	if c.HTTPCheckFrequency < minHTTPCheck || c.HTTPCheckFrequency > maxHTTPCheck {
		errs = append(errs, fmt.Errorf("httpCheckFrequency (--http-check-frequency): %v is not within %v and %v",
			c.HTTPCheckFrequency, minHTTPCheck, maxHTTPCheck))
	}
	return errs
}

// isToken reports whether s is a valid name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
