package expand

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

const (
	// MaxStringBytes bounds one argument, or one variable as NAME=value. The kernel starts no process with a longer one:
	// it takes 32 pages of 4 KiB, with a final zero.
	MaxStringBytes = 128<<10 - 1
	// MaxTotalBytes bounds the arguments and variables of a process together. The kernel gives them a quarter of the
	// stack's limit, which is 8 MiB by default.
	MaxTotalBytes = 2 << 20
)

// Errors of a text that has become too long.
var (
	ErrString = fmt.Errorf("has more than %d bytes with its references expanded, and Linux starts no process with that; "+
		"shorten it", MaxStringBytes)
	ErrTotal = fmt.Errorf("takes the variables and arguments of the container beyond %d bytes, and Linux starts no "+
		"process with more; shorten them, or put them into a file", MaxTotalBytes)
)

// Errors of bytes that do not reach a process as they are.
var (
	ErrNUL = errors.New("has a NUL byte, with which a text ends in Linux; " +
		"mount the object as a volume, or keep the value encoded, as base64 is")
	ErrUTF8 = errors.New("has bytes that are not UTF-8, and container runtimes pass on only text, as JSON; " +
		"mount the object as a volume, or keep the value encoded, as base64 is")
)

// CheckText returns ErrNUL or ErrUTF8 for a value that would not reach a process as it is.
func CheckText(value []byte) error {
	switch {
	case bytes.IndexByte(value, 0) >= 0:
		return ErrNUL
	case !utf8.Valid(value):
		return ErrUTF8
	}
	return nil
}

// Lookup returns the value of a variable, and whether there is one. A nil Lookup leaves a text as it is.
type Lookup func(name string) (string, bool)

// Budget is how many bytes a process has already been given. The zero value is the budget of a new process. It counts
// every text that it has expanded, even if a later text replaces it: each takes memory.
type Budget struct {
	used int
	// measure makes it count without writing anything.
	measure bool
}

// Variable returns the value of a variable, expanded.
func (b *Budget) Variable(name, value string, lookup Lookup) (string, error) {
	return b.expand(value, lookup, len(name)+len("="))
}

// Argument returns an argument, expanded.
func (b *Budget) Argument(arg string, lookup Lookup) (string, error) { return b.expand(arg, lookup, 0) }

func (b *Budget) expand(text string, lookup Lookup, prefix int) (string, error) {
	left := MaxTotalBytes - b.used - prefix
	w := writer{limit: min(left, MaxStringBytes-prefix), measure: b.measure}
	w.expand(text, lookup)
	switch {
	case !w.full:
		b.used += prefix + w.bytes
		return w.out.String(), nil
	case left < MaxStringBytes-prefix:
		return "", ErrTotal
	}
	return "", ErrString
}

// writer takes text until there is more than its limit.
type writer struct {
	out     strings.Builder
	bytes   int
	limit   int
	measure bool // count only
	full    bool
}

func (w *writer) add(text string) {
	if w.full = w.full || w.bytes+len(text) > w.limit; w.full {
		return
	}
	w.bytes += len(text)
	if !w.measure {
		w.out.WriteString(text)
	}
}

// expand replaces $(NAME) by the value of lookup. An unknown name stays as written, and $$ becomes one dollar sign, so
// $$(NAME) becomes $(NAME). Every other dollar sign is literal. These are the API's rules for env, command and args. It
// takes time linear in the text.
func (w *writer) expand(s string, lookup Lookup) {
	for !w.full {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) || lookup == nil {
			w.add(s)
			return
		}
		w.add(s[:i])
		text, taken := "$", 1
		switch s[i+1] {
		case '$':
			taken = 2
		case '(':
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				// Nothing behind it is closed either.
				w.add(strings.ReplaceAll(s[i:], "$$", "$"))
				return
			}
			text, taken = s[i:i+end+1], end+1
			if value, ok := lookup(s[i+2 : i+end]); ok {
				text = value
			}
		}
		w.add(text)
		s = s[i+taken:]
	}
}

// Static returns a probe's command, expanded. As in the kubelet, a variable has the literal value from the manifest; a
// variable with valueFrom is empty.
func Static(command []string, env []corev1.EnvVar) ([]string, error) {
	return new(Budget).static(command, env)
}

// CheckStatic returns the error of Static, without its memory.
func CheckStatic(command []string, env []corev1.EnvVar) error {
	_, err := (&Budget{measure: true}).static(command, env)
	return err
}

func (b *Budget) static(command []string, env []corev1.EnvVar) ([]string, error) {
	values := make(map[string]string, len(env))
	for i := range env {
		values[env[i].Name] = env[i].Value
	}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	out := make([]string, len(command))
	for i, arg := range command {
		var err error
		if out[i], err = b.Argument(arg, lookup); err != nil {
			return nil, fmt.Errorf("argument %d %w", i, err)
		}
	}
	return out, nil
}
