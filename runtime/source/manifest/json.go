package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// parseJSON reads one or more JSON objects that follow one another. It is false for anything but JSON.
func (s *source) parseJSON() ([]document, *fault, bool) {
	p := jsonParser{decoder: json.NewDecoder(bytes.NewReader(s.data)), data: s.data, values: s.values, lines: 1}
	p.decoder.UseNumber()
	var docs []document
	for {
		token, err := p.decoder.Token()
		if errors.Is(err, io.EOF) {
			return docs, nil, true
		}
		var tree *node
		if err == nil {
			tree, err = p.value(token)
		}
		var f *fault
		switch {
		case errors.As(err, &f):
			return nil, f, true
		case err != nil:
			return nil, nil, false
		}
		docs = append(docs, s.charge(tree))
	}
}

// jsonParser reads values token by token, and ends with a fault when there are too many or too deep ones.
type jsonParser struct {
	decoder *json.Decoder
	data    []byte
	values  int // that may still follow
	depth   int // of the current value

	counted int // bytes of data whose newlines lines has
	lines   int
}

// line returns the line of the last byte of the current token; the decoder reports only the end of a token.
func (p *jsonParser) line() int {
	end := int(p.decoder.InputOffset()) - 1
	p.lines += bytes.Count(p.data[p.counted:end], []byte("\n"))
	p.counted = end
	return p.lines
}

func (p *jsonParser) value(token json.Token) (*node, error) {
	n := &node{line: p.line()}
	if p.values--; p.values < 0 {
		return nil, tooMany(n.line)
	}
	if p.depth++; p.depth > maxDepth {
		return nil, tooDeep(n.line)
	}
	defer func() { p.depth-- }()
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
