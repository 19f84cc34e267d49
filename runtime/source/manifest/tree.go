package manifest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	mapNode
	listNode
)

// node is one value of a manifest with its line. YAML and JSON both become this tree, which is used to check types, to
// decode and to find the line of a field. Aliases share nodes.
type node struct {
	kind    nodeKind
	line    int
	raw     json.RawMessage // of a scalar: its JSON literal
	entries []entry         // of a mapping, in written order, each key once
	items   []*node         // of a list
	dups    []entry         // of a mapping: repeated keys, which are reported and not decoded

	size   int // values in this tree with aliases expanded, at most maxFileValues+1
	bytes  int // of its JSON with aliases expanded, at most maxFileBytes+1
	height int // levels of nesting, 1 for a scalar
}

type entry struct {
	key  string
	line int
	val  *node
}

// measure sets size, bytes and height from the children; every constructor calls it last.
func (n *node) measure() *node {
	n.size, n.bytes, n.height = 1, len(n.raw)+len("{}"), 1
	add := func(key string, child *node) {
		n.size = min(n.size+child.size, maxFileValues+1)
		n.bytes = min(n.bytes+len(key)+len(`"":,`)+child.bytes, maxFileBytes+1)
		n.height = max(n.height, child.height+1)
	}
	for _, e := range n.entries {
		add(e.key, e.val)
	}
	for _, d := range n.dups {
		add(d.key, d.val)
	}
	for _, item := range n.items {
		add("", item)
	}
	return n
}

func (n *node) isNull() bool { return n.kind == scalarNode && string(n.raw) == "null" }

// text returns the value of a string scalar.
func (n *node) text() (string, bool) {
	if n == nil || n.kind != scalarNode || len(n.raw) < len(`""`) || n.raw[0] != '"' {
		return "", false
	}
	if inner := n.raw[1 : len(n.raw)-1]; isPlain(inner) {
		return string(inner), true
	}
	var s string
	if json.Unmarshal(n.raw, &s) != nil {
		return "", false
	}
	return s, true
}

// quote returns a string as JSON, as json.Marshal does.
func quote(s string) json.RawMessage {
	if isPlain(s) {
		out := make([]byte, 0, len(s)+len(`""`))
		return append(append(append(out, '"'), s...), '"')
	}
	out, _ := json.Marshal(s) // a string always marshals
	return out
}

// isPlain reports whether JSON holds a string as it is, between quotes.
func isPlain[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// typeName returns the node's type for messages, without its value, which may be a secret.
func (n *node) typeName() string {
	switch {
	case n.kind == mapNode:
		return "a mapping"
	case n.kind == listNode:
		return "a list"
	case n.isNull():
		return "null"
	case n.raw[0] == '"':
		return "a string"
	case n.raw[0] == 't' || n.raw[0] == 'f':
		return "a boolean"
	}
	return "a number"
}

// get returns the value of a key; nil if n has no such key or is nil, so that calls can be chained.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.key == key {
			return e.val
		}
	}
	return nil
}

// appendJSON writes the tree as JSON. The caller has checked its size.
func (n *node) appendJSON(out []byte) []byte {
	switch n.kind {
	case mapNode:
		out = append(out, '{')
		for i, e := range n.entries {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(out, quote(e.key)...), ':')
			out = e.val.appendJSON(out)
		}
		return append(out, '}')
	case listNode:
		out = append(out, '[')
		for i, item := range n.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.appendJSON(out)
		}
		return append(out, ']')
	}
	return append(out, n.raw...)
}

// lineOf returns the line of a field path such as spec.containers[0].image, or of its nearest existing parent. If the
// path ends in a mapping and the bad value is one of its keys or values, as for labels, it returns that line.
func (n *node) lineOf(path string, bad any) int {
	line := n.line
	for path != "" && n != nil {
		var step string
		step, path = nextStep(path)
		child, at := n.step(step)
		if child == nil {
			return line
		}
		n, line = child, at
	}
	if text, ok := bad.(string); ok && n != nil && n.kind == mapNode {
		quoted, _ := json.Marshal(text) // a string always marshals
		for _, e := range n.entries {
			if e.key == text || e.val.kind == scalarNode && bytes.Equal(e.val.raw, quoted) {
				return e.line
			}
		}
	}
	return line
}

func (n *node) step(step string) (*node, int) {
	if n.kind == listNode {
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(n.items) {
			return nil, 0
		}
		return n.items[i], n.items[i].line
	}
	for _, e := range n.entries {
		if e.key == step {
			return e.val, e.line
		}
	}
	return nil, 0
}

// nextStep splits off the first name or bracketed index of a field path. A key in brackets may contain dots.
func nextStep(path string) (step, rest string) {
	if path[0] == '[' {
		for i := 1; i < len(path); i++ {
			if path[i] == ']' && (i+1 == len(path) || path[i+1] == '.' || path[i+1] == '[') {
				return path[1:i], strings.TrimPrefix(path[i+1:], ".")
			}
		}
		return path[1:], ""
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], ".")
}
