package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/pattern"
)

// marks returns an upper bound, up to a factor of three, of the values that the YAML parser will create, and the number
// of lines that begin like a directive. Every value but the first follows one of the counted characters. Those within
// strings count too: that is the price of counting before anything is parsed.
func marks(data []byte) (values, directives int) {
	begins := true // at the beginning of a line
	for i, b := range data {
		switch b {
		case ',', '[', '{', ':', '?':
			values++
		case '-':
			// A dash is an item only before white space; the first bytes of Unicode's line breaks count as such.
			if i+1 == len(data) || data[i+1] <= ' ' || data[i+1] >= utf8.RuneSelf || begins {
				values++
			}
		case '%':
			if begins {
				directives++
			}
		}
		begins = b == '\n' || b == '\r'
	}
	return values, directives
}

// parseYAML counts before it parses: the parser needs some 300 bytes and a microsecond a value, and the square of the
// number of directives.
func (s *source) parseYAML() ([]document, *fault) {
	values, directives := marks(s.data)
	switch {
	case values > maxFileValues:
		return nil, &fault{0, CodeTooLarge, fmt.Sprintf("more than %d of the characters , : ? [ { and - that begin a value",
			maxFileValues), splitRemedy}
	case directives > maxDirectives:
		return nil, &fault{0, CodeTooLarge, fmt.Sprintf("more than %d lines that begin with %%", maxDirectives),
			"indent text, and write no directives: Kubernetes needs none"}
	}
	var docs []document
	resolved := map[string]json.RawMessage{}
	decoder := yaml.NewDecoder(bytes.NewReader(s.data))
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, s.syntaxFault(err)
		}
		c := converter{done: map[*yaml.Node]*node{}, resolved: resolved}
		tree, err := c.convert(&root)
		switch {
		case err != nil:
			var f *fault
			if !errors.As(err, &f) {
				f = &fault{root.Line, CodeSyntax, "cannot be written as JSON", defect.ReportManifest}
			}
			docs = append(docs, document{fault: s.hint(f)})
		case !tree.isNull():
			docs = append(docs, s.charge(tree))
		}
	}
}

var (
	yamlErrorLine = pattern.Lazy(`^line (\d+): `)

	// countedFromZero matches errors of the YAML parser, not of its scanner, whose line is one too low.
	countedFromZero = pattern.Lazy(`^did not find expected (key|node content|<document start>|'-' indicator|',' or)`)
)

func (s *source) syntaxFault(err error) *fault {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := yamlErrorLine().FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // only digits match, and an absurd number is caught below
		text = text[len(m[0]):]
	}
	if countedFromZero().MatchString(text) {
		line++
	}
	if line == 0 {
		line = lineOfBadByte(s.data)
	}
	f := &fault{line: min(line, 1+bytes.Count(s.data, []byte("\n"))), code: CodeSyntax,
		message: "not valid YAML: " + text, remedy: "fix the YAML; until then nothing in this file is read"}
	return s.hint(f)
}

// lineOfBadByte returns the line of the first byte that YAML does not allow, or 1: errors in line 1 have no line.
func lineOfBadByte(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && size == 1, r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return line
		}
		data = data[size:]
	}
	return 1
}

// converter converts one YAML document into a tree. Each YAML node is converted once, even if it has several aliases.
type converter struct {
	done  map[*yaml.Node]*node // nil while a node is being converted
	count int                  // values converted, and mapping entries merged
	depth int                  // of the node being converted

	resolved map[string]json.RawMessage // words that the library has resolved, of all documents
}

func (c *converter) convert(y *yaml.Node) (*node, error) {
	switch y.Kind {
	case yaml.DocumentNode:
		return c.convert(y.Content[0])
	case yaml.AliasNode:
		y = y.Alias
	}
	if known, seen := c.done[y]; seen {
		if known == nil {
			return nil, &fault{y.Line, CodeSyntax, "an anchor that contains itself", "write the values out"}
		}
		return known, nil
	}
	if c.depth++; c.depth > maxDepth {
		return nil, tooDeep(y.Line)
	}
	defer func() { c.depth-- }()
	c.done[y] = nil
	n, err := c.convertNew(y)
	if err != nil {
		return nil, err
	}
	c.done[y] = n.measure()
	return n, nil
}

func (c *converter) convertNew(y *yaml.Node) (*node, error) {
	if c.count++; c.count > maxFileValues {
		return nil, tooMany(y.Line)
	}
	switch y.Kind {
	case yaml.MappingNode:
		return c.mapping(y)
	case yaml.SequenceNode:
		n := &node{kind: listNode, line: y.Line}
		for _, child := range y.Content {
			item, err := c.convert(child)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	}
	raw, err := c.scalar(y)
	return &node{line: y.Line, raw: raw}, err
}

func (c *converter) mapping(y *yaml.Node) (*node, error) {
	n := &node{kind: mapNode, line: y.Line}
	seen := map[string]bool{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		keyNode, valueNode := y.Content[i], y.Content[i+1]
		if keyNode.Kind == yaml.ScalarNode && keyNode.Tag == "!!merge" {
			merges = append(merges, valueNode)
			continue
		}
		key, err := c.key(keyNode)
		if err != nil {
			return nil, err
		}
		val, err := c.convert(valueNode)
		if err != nil {
			return nil, err
		}
		e := entry{key, keyNode.Line, val}
		if seen[key] {
			n.dups = append(n.dups, e)
			continue
		}
		seen[key] = true
		n.entries = append(n.entries, e)
	}
	for _, m := range merges {
		if err := c.merge(n, m, seen); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// merge adds the mappings of "<<". Existing keys win, and of several mappings the first.
func (c *converter) merge(n *node, from *yaml.Node, seen map[string]bool) error {
	source, err := c.convert(from)
	if err != nil {
		return err
	}
	mappings := []*node{source}
	if source.kind == listNode {
		mappings = source.items
	}
	for _, m := range mappings {
		if m.kind != mapNode {
			return &fault{from.Line, CodeSyntax, "<< merges " + m.typeName(), "merge a mapping or a list of mappings"}
		}
		if c.count += len(m.entries); c.count > maxFileValues {
			return tooMany(from.Line)
		}
		for _, e := range m.entries {
			if !seen[e.key] {
				seen[e.key] = true
				n.entries = append(n.entries, e)
			}
		}
	}
	return nil
}

// key converts a mapping's key to a string, as JSON requires; the API server's decoder also converts 80 and true.
func (c *converter) key(y *yaml.Node) (string, error) {
	n, err := c.convert(y)
	if err != nil {
		return "", err
	}
	if n.kind != scalarNode || n.isNull() {
		return "", &fault{y.Line, CodeSyntax, "a key that is " + n.typeName(), "write the key as a word"}
	}
	if text, ok := n.text(); ok {
		return text, nil
	}
	return string(n.raw), nil
}

// resolvable matches the plain scalars that may be other than a string: null, the short words that mean true, false or
// null, and scalars that begin like a number. Resolving every other word by the library would take most of the time.
var resolvable = pattern.Lazy(
	`^(~|[yYnNtTfFoO][A-Za-z]{0,4}|[-+]?\.?[0-9][-+.0-9A-Za-z_]{0,63}|[-+]?\.[A-Za-z]{3})$`)

// decimal matches the numbers that mean the same in YAML and JSON.
var decimal = pattern.Lazy(`^(0|-?[1-9][0-9]{0,14}(\.[0-9]{1,15})?)$`)

// scalar returns the JSON of a scalar. The library that the API server and kubectl read YAML with resolves unquoted
// words (yes, 0777, 1e3), by YAML 1.1; the parser that keeps lines uses YAML 1.2.
func (c *converter) scalar(y *yaml.Node) (json.RawMessage, error) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tagged := y.Style&yaml.TaggedStyle != 0
	switch {
	case tagged && y.Tag == "!!str", !tagged && y.Style&quoted != 0:
		return quote(y.Value), nil
	case tagged && y.Tag != "!!int" && y.Tag != "!!float" && y.Tag != "!!bool" && y.Tag != "!!null":
		return nil, &fault{y.Line, CodeSyntax, "a YAML tag that Kubernetes objects do not use", "remove the tag"}
	case y.Value == "":
		return json.RawMessage("null"), nil
	case isWord(y.Value):
		return quote(y.Value), nil
	case decimal().MatchString(y.Value):
		return json.RawMessage(y.Value), nil
	case !resolvable().MatchString(y.Value):
		return quote(y.Value), nil
	}
	return c.resolve(y)
}

// isWord reports whether a plain scalar is a string by its first byte and its length alone: neither decimal nor
// resolvable can match it. That is most of a manifest.
func isWord(s string) bool {
	switch c := s[0]; {
	case strings.IndexByte("~-+.0123456789", c) >= 0:
		return false
	case strings.IndexByte("yYnNtTfFoO", c) >= 0:
		return len(s) > 5
	}
	return true
}

// resolve returns the JSON of an unquoted word by the library, which is asked once for each.
func (c *converter) resolve(y *yaml.Node) (json.RawMessage, error) {
	if raw, known := c.resolved[y.Value]; known {
		return raw, nil
	}
	if len(c.resolved) == maxResolved {
		return nil, &fault{y.Line, CodeTooLarge, fmt.Sprintf("more than %d different words without quotes that begin like "+
			"numbers", maxResolved), "quote them, or " + splitRemedy}
	}
	raw, err := k8syaml.YAMLToJSON([]byte(y.Value))
	if err != nil {
		return nil, &fault{y.Line, CodeSyntax, "a number that JSON cannot hold", "quote it, or write a finite number"}
	}
	raw = bytes.TrimSpace(raw)
	c.resolved[y.Value] = raw
	return raw, nil
}
