package bounded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

const (
	// maxYAMLDepth bounds the nesting of YAML, aliases expanded. Configuration has a depth of about ten.
	maxYAMLDepth = 100
	// maxYAMLGrowth bounds what a document costs with its aliases expanded, in nodes and bytes, as a multiple of the limit
	// of its bytes. Without aliases, a document costs less than twice its bytes.
	maxYAMLGrowth = 4
	// maxYAMLValues bounds the characters after which a value begins: the parser needs some 300 bytes for a value, so at
	// most 30 MB. The longest configuration has a few thousand.
	maxYAMLValues = 100_000
	// maxYAMLDirectives bounds the lines that begin with a percent sign: the parser compares each directive with all
	// before it.
	maxYAMLDirectives = 16
)

// JSON decodes one JSON value of at most limit bytes into a value, and refuses more data after it. Options are methods
// of the decoder, such as (*json.Decoder).DisallowUnknownFields.
func JSON(data []byte, limit int, into any, options ...func(*json.Decoder)) error {
	if len(data) > limit {
		return &tooLarge{int64(limit)}
	}
	if len(options) == 0 {
		return json.Unmarshal(data, into)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	for _, set := range options {
		set(d)
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more data after the end of the JSON value")
	}
	return nil
}

// YAMLToJSON converts the first document of at most limit bytes of YAML to JSON. What aliases and merges cost is
// counted before they are expanded. Of a duplicate key the last value counts.
func YAMLToJSON(data []byte, limit int) ([]byte, error) {
	if err := checkYAML(data, limit); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSON(data)
}

// YAMLToJSONStrict is YAMLToJSON that refuses a duplicate key.
func YAMLToJSONStrict(data []byte, limit int) ([]byte, error) {
	if err := checkYAML(data, limit); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(data)
}

func checkYAML(data []byte, limit int) error {
	if len(data) > limit {
		return &tooLarge{int64(limit)}
	}
	if n := bytes.Count(data, []byte("\n%")); n > maxYAMLDirectives {
		return fmt.Errorf("more than %d lines that begin with %%; indent them", maxYAMLDirectives)
	}
	values := 0
	for _, mark := range []string{",", "[", "{", ":", "?", "- ", "-\n", "-\t"} {
		values += bytes.Count(data, []byte(mark))
	}
	if values > maxYAMLValues {
		return fmt.Errorf("more than %d characters after which a value begins; shorten it", maxYAMLValues)
	}
	var root yaml3.Node
	if err := yaml3.Unmarshal(data, &root); err != nil {
		return err
	}
	c := yamlCost{limit: maxYAMLGrowth * int64(limit), known: map[*yaml3.Node]size{}}
	_, err := c.sizeOf(&root)
	return err
}

// size is the size of a YAML node with its aliases expanded.
type size struct {
	cost  int64 // nodes and bytes of scalars
	depth int
}

// yamlCost computes sizes in time linear in the document, by computing each anchor once.
type yamlCost struct {
	limit int64
	known map[*yaml3.Node]size // of anchors; of depth -1 while it is computed
}

func (c *yamlCost) sizeOf(n *yaml3.Node) (size, error) {
	if n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	if s, ok := c.known[n]; ok {
		if s.depth < 0 {
			return s, fmt.Errorf("line %d: the anchor %q contains itself", n.Line, n.Anchor)
		}
		return s, nil
	}
	if n.Anchor != "" {
		c.known[n] = size{depth: -1}
	}
	total := size{cost: 1 + int64(len(n.Value))}
	for _, below := range n.Content {
		s, err := c.sizeOf(below)
		if err != nil {
			return s, err
		}
		total.cost += s.cost
		total.depth = max(total.depth, s.depth+1)
		switch {
		case total.cost > c.limit:
			return s, fmt.Errorf("line %d: more than %d bytes with its aliases expanded; write fewer aliases", n.Line, c.limit)
		case total.depth > maxYAMLDepth:
			return s, fmt.Errorf("line %d: nested deeper than %d levels", n.Line, maxYAMLDepth)
		}
	}
	if n.Anchor != "" {
		c.known[n] = total
	}
	return total, nil
}
