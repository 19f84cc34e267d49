package cri

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// expand replaces $(NAME) by the value of lookup. An unknown name stays as written, and $$ becomes one dollar sign, so
// $$(NAME) becomes $(NAME). Every other dollar sign is literal. These are the API's rules for env, command and args.
func expand(s string, lookup func(string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i+2:], ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			name := s[i+2 : i+2+end]
			if value, ok := lookup(name); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
			i += 2 + end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// ExpandStatic expands a probe's command. As in the kubelet, a variable has the literal value from the manifest; a
// variable with valueFrom is empty.
func ExpandStatic(command []string, env []corev1.EnvVar) []string {
	values := make(map[string]string, len(env))
	for i := range env {
		values[env[i].Name] = env[i].Value
	}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	out := make([]string, len(command))
	for i, arg := range command {
		out[i] = expand(arg, lookup)
	}
	return out
}
