package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// fault is a problem found before a document is known to be a pod.
type fault struct {
	line    int
	code    Code
	message string
	remedy  string
}

func (f *fault) Error() string { return f.message }

// document is one document of a manifest: its tree, or a fault of this document only.
type document struct {
	root  *node
	fault *fault
}

// parse splits a manifest into documents, without empty ones. A fault means that the whole manifest is unusable.
func parse(data []byte) ([]document, *fault) {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '{' {
		// JSON has escapes (surrogate pairs) and long keys that a YAML parser refuses.
		if docs, ok := parseJSON(data); ok {
			return docs, nil
		}
	}
	return parseYAML(data)
}

func parseYAML(data []byte) ([]document, *fault) {
	var docs []document
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, syntaxFault(err, data)
		}
		c := converter{done: map[*yaml.Node]*node{}}
		tree, err := c.convert(&root)
		switch {
		case err != nil:
			var f *fault
			if !errors.As(err, &f) {
				f = syntaxFault(err, data)
			}
			docs = append(docs, document{fault: f.hint(data)})
		case !tree.isNull():
			docs = append(docs, checkLimits(tree))
		}
	}
}

var (
	yamlErrorLine = regexp.MustCompile(`^line (\d+): `)

	// countedFromZero matches errors of the YAML parser, not of its scanner, whose line is one too low.
	countedFromZero = regexp.MustCompile(`^did not find expected (key|node content|<document start>|'-' indicator|',' or)`)
)

func syntaxFault(err error, data []byte) *fault {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := yamlErrorLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // only digits match, and an absurd number is caught below
		text = text[len(m[0]):]
	}
	if countedFromZero.MatchString(text) {
		line++
	}
	if line == 0 {
		line = lineOfBadByte(data)
	}
	f := &fault{line: min(line, 1+bytes.Count(data, []byte("\n"))), code: CodeSyntax,
		message: "not valid YAML: " + text, remedy: "fix the YAML; until then nothing in this file is read"}
	return f.hint(data)
}

// hint improves the message for two frequent mistakes: tabs, and a template without values.
func (f *fault) hint(data []byte) *fault {
	if f.code != CodeSyntax {
		return f
	}
	lines := bytes.SplitN(data, []byte("\n"), f.line+1)
	if f.line < 1 || f.line > len(lines) {
		return f
	}
	line := lines[f.line-1]
	switch {
	case bytes.Contains(line, []byte("{{")):
		f.message = "a template without values: " + f.message
		f.remedy = "render the template, and write the result"
	case bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")):
		f.remedy = "indent with spaces: this line begins with a tab"
	}
	return f
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

func checkLimits(tree *node) document {
	switch {
	case tree.size > maxNodes:
		return document{fault: tooMany(tree.line)}
	case tree.height > maxDepth:
		return document{fault: &fault{tree.line, CodeTooLarge,
			fmt.Sprintf("nested deeper than %d levels", maxDepth), "no pod is; check the indentation and the aliases"}}
	}
	return document{root: tree}
}

// converter converts one YAML document into a tree. Each YAML node is converted once, even if it has several aliases.
type converter struct {
	done  map[*yaml.Node]*node // nil while a node is being converted
	count int                  // values converted, and mapping entries merged
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
	c.done[y] = nil
	n, err := c.convertNew(y)
	if err != nil {
		return nil, err
	}
	c.done[y] = n.measure()
	return n, nil
}

func tooMany(line int) *fault {
	return &fault{line, CodeTooLarge, fmt.Sprintf("more than %d values when aliases are expanded", maxNodes),
		"split it into several files"}
}

func (c *converter) convertNew(y *yaml.Node) (*node, error) {
	if c.count++; c.count > maxNodes {
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
	raw, err := scalar(y)
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
		if c.count += len(m.entries); c.count > maxNodes {
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
// null, and those that begin like a number. Resolving every other word by the library would take most of the time.
var resolvable = regexp.MustCompile(
	`^(~|[yYnNtTfFoO][A-Za-z]{0,4}|[-+]?\.?[0-9][-+.0-9A-Za-z_]{0,63}|[-+]?\.[A-Za-z]{3})$`)

// scalar returns the JSON of a scalar. Unquoted words (yes, 0777, 1e3) are resolved by the library with which the API
// server and kubectl read YAML, by YAML 1.1; the parser that keeps lines uses YAML 1.2.
func scalar(y *yaml.Node) (json.RawMessage, error) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tagged := y.Style&yaml.TaggedStyle != 0
	switch {
	case tagged && y.Tag == "!!str", !tagged && y.Style&quoted != 0:
		return json.Marshal(y.Value)
	case tagged && y.Tag != "!!int" && y.Tag != "!!float" && y.Tag != "!!bool" && y.Tag != "!!null":
		return nil, &fault{y.Line, CodeSyntax, "a YAML tag that Kubernetes objects do not use", "remove the tag"}
	case y.Value == "":
		return json.RawMessage("null"), nil
	case !resolvable.MatchString(y.Value):
		return json.Marshal(y.Value)
	}
	raw, err := k8syaml.YAMLToJSON([]byte(y.Value))
	if err != nil {
		return nil, &fault{y.Line, CodeSyntax, "a number that JSON cannot hold", "quote it, or write a finite number"}
	}
	return bytes.TrimSpace(raw), nil
}

// parseJSON reads one or more JSON objects that follow one another.
func parseJSON(data []byte) ([]document, bool) {
	p := jsonParser{decoder: json.NewDecoder(bytes.NewReader(data))}
	p.decoder.UseNumber()
	for i, b := range data {
		if b == '\n' {
			p.breaks = append(p.breaks, int64(i))
		}
	}
	var docs []document
	for {
		token, err := p.decoder.Token()
		if errors.Is(err, io.EOF) {
			return docs, true
		}
		if err != nil {
			return nil, false
		}
		tree, err := p.value(token)
		if err != nil {
			return nil, false
		}
		docs = append(docs, checkLimits(tree))
	}
}

type jsonParser struct {
	decoder *json.Decoder
	breaks  []int64 // offsets of the newlines
}

// line returns the line of the last byte of the current token; the decoder reports only the end of a token.
func (p *jsonParser) line() int {
	end := p.decoder.InputOffset() - 1
	return 1 + sort.Search(len(p.breaks), func(i int) bool { return p.breaks[i] >= end })
}

func (p *jsonParser) value(token json.Token) (*node, error) {
	n := &node{line: p.line()}
	var err error
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			n.kind = mapNode
			err = p.members(n)
		} else {
			n.kind = listNode
			err = p.elements(n)
		}
	case json.Number:
		n.raw = json.RawMessage(t)
	default:
		n.raw, err = json.Marshal(t)
	}
	if err != nil {
		return nil, err
	}
	return n.measure(), nil
}

func (p *jsonParser) members(n *node) error {
	seen := map[string]bool{}
	for p.decoder.More() {
		token, err := p.decoder.Token()
		if err != nil {
			return err
		}
		e := entry{key: token.(string), line: p.line()} // the decoder returns only strings as keys
		if token, err = p.decoder.Token(); err != nil {
			return err
		}
		if e.val, err = p.value(token); err != nil {
			return err
		}
		if seen[e.key] {
			n.dups = append(n.dups, e)
			continue
		}
		seen[e.key] = true
		n.entries = append(n.entries, e)
	}
	_, err := p.decoder.Token()
	return err
}

func (p *jsonParser) elements(n *node) error {
	for p.decoder.More() {
		token, err := p.decoder.Token()
		if err != nil {
			return err
		}
		item, err := p.value(token)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := p.decoder.Token()
	return err
}
