package journal

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parameters reads the parameters of a request. It keeps the error of the first that is wrong, or unknown: a typo would
// widen what is requested.
type parameters struct {
	values url.Values
	read   map[string]bool
	err    error
}

func parametersOf(u *url.URL) *parameters {
	values, err := url.ParseQuery(u.RawQuery)
	return &parameters{values: values, read: map[string]bool{}, err: err}
}

func (p *parameters) all(name string) []string {
	p.read[name] = true
	return p.values[name]
}

func (p *parameters) text(name string) string {
	all := p.all(name)
	if len(all) > 1 {
		p.wrong(name, "is given %d times", len(all))
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

func (p *parameters) number(name string, bits int) uint64 {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		p.wrong(name, "is %q: want a number", text)
	}
	return n
}

func (p *parameters) yes(name string) bool {
	text := p.text(name)
	if text == "" {
		return false
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		p.wrong(name, "is %q: want true or false", text)
	}
	return yes
}

// since returns the time a duration before now.
func (p *parameters) since(name string, now time.Time) time.Time {
	text := p.text(name)
	if text == "" {
		return time.Time{}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.wrong(name, "is %q: want a duration such as 10m", text)
	}
	return now.Add(-d)
}

func (p *parameters) wrong(name, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("parameter %s %s", name, fmt.Sprintf(format, args...))
	}
}

// end returns the error of the first wrong parameter. A parameter that was not read is wrong, too.
func (p *parameters) end() error {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !p.read[name] {
			p.wrong(strconv.Quote(name), "is unknown: want of %s",
				strings.Join(slices.Sorted(maps.Keys(p.read)), ", "))
		}
	}
	if p.err != nil {
		return badRequest(p.err.Error())
	}
	return nil
}
