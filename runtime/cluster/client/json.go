package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errJSON = errors.New("the API server's answer is no JSON of the API")

// skim reads one JSON value of at most limit bytes. It appends to into the value, or only the first prefix of one with
// more than most bytes. That it is valid is the decoder's to find out: skim finds its end. Without another value the
// error is io.EOF.
func skim(r *bufio.Reader, into []byte, most, limit int64) (data []byte, size int64, err error) {
	depth, quoted, escaped := 0, false, false
	at := len(into)
	b, err := space(r)
	for ; err == nil; b, err = r.ReadByte() {
		scalar := !quoted && depth == 0 && size > 0
		if scalar && (b == ',' || b == ']' || b == '}' || b == ':' || isSpace(b)) {
			return into, size, r.UnreadByte() // after a number or a word
		}
		if size++; size > limit {
			return into, size, fmt.Errorf("a value of the API server's answer has more than %d bytes", limit)
		}
		if size <= most {
			into = append(into, b)
		} else if int64(len(into)-at) > prefixBytes {
			into = into[:at+prefixBytes]
		}
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = b == '\\'
			quoted = b != '"'
		case b == '"':
			quoted = true
		case b == '{' || b == '[':
			depth++
		case b == '}' || b == ']':
			depth--
		default:
			continue
		}
		if !quoted && depth == 0 {
			return into, size, nil
		}
	}
	if size == 0 {
		return into, 0, err
	}
	return into, size, unexpected(err)
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// space reads until the first byte that is no white space, and returns it.
func space(r *bufio.Reader) (b byte, err error) {
	for b = ' '; err == nil && isSpace(b); {
		b, err = r.ReadByte()
	}
	return b, err
}

// expect reads one of two bytes after white space, and reports whether it is the first.
func expect(r *bufio.Reader, first, other byte) (bool, error) {
	b, err := space(r)
	if err == nil && b != first && b != other {
		err = errJSON
	}
	return b == first, unexpected(err)
}

// readJSONList reads a list of a kind, item by item.
func readJSONList(r *bufio.Reader, kind string, due any, each func(item) error) (meta metav1.ListMeta, err error) {
	if _, err := expect(r, '{', '{'); err != nil {
		return meta, err
	}
	is := ""
	for more := true; more; {
		if more, err = another(r); err != nil || !more {
			break
		}
		var name string
		if err = head(r, &name); err != nil {
			return meta, err
		}
		if _, err = expect(r, ':', ':'); err != nil {
			return meta, err
		}
		switch name {
		case "items":
			err = readJSONItems(r, each)
		case "kind":
			err = head(r, &is)
		case "metadata":
			err = head(r, &meta)
		default:
			_, _, err = skim(r, nil, 0, maxPassedOver)
		}
		if err == nil {
			more, err = expect(r, ',', '}')
		}
		if err != nil {
			return meta, err
		}
	}
	if err != nil {
		return meta, err
	}
	return meta, wrongList(is, kind, due)
}

// another reports whether an object has a field; its end is read.
func another(r *bufio.Reader) (bool, error) {
	b, err := space(r)
	if err != nil || b == '}' {
		return false, unexpected(err)
	}
	return true, r.UnreadByte()
}

// head reads a value outside the items.
func head(r *bufio.Reader, into any) error {
	data, _, err := skim(r, nil, maxHeadBytes, maxHeadBytes)
	if err != nil {
		return unexpected(err)
	}
	if json.Unmarshal(data, into) != nil {
		return errJSON
	}
	return nil
}

// readJSONItems reads the items of a list.
func readJSONItems(r *bufio.Reader, each func(item) error) error {
	b, err := space(r)
	switch {
	case err != nil:
		return unexpected(err)
	case b != '[':
		if err := r.UnreadByte(); err != nil {
			return err
		}
		var none []struct{} // null
		return head(r, &none)
	}
	if b, err = space(r); err != nil || b == ']' {
		return unexpected(err)
	}
	if err := r.UnreadByte(); err != nil {
		return err
	}
	var buffer []byte
	for more := true; more; {
		var size int64
		if buffer, size, err = skim(r, buffer[:0], asJSON.most(), maxPassedOver); err != nil {
			return unexpected(err)
		}
		if err := each(item{data: buffer, size: size, as: asJSON}); err != nil {
			return err
		}
		if more, err = expect(r, ',', ']'); err != nil {
			return err
		}
	}
	return nil
}

// readJSONEvent reads the next event of a watch: {"type": ..., "object": {...}}.
func readJSONEvent(r *bufio.Reader) (kind, of string, in item, err error) {
	data, size, err := skim(r, nil, asJSON.most(), maxPassedOver)
	if err != nil {
		return "", "", in, err
	}
	in = item{data: data, size: size, as: asJSON}
	if size > int64(len(data)) {
		d := json.NewDecoder(bytes.NewReader(data))
		_ = scalars(d, func(path, value string) {
			if path == ".type" {
				kind = value
			}
			if path == ".object.kind" {
				of = value
			}
		})
		if at := bytes.IndexByte(data[1:], '{'); at >= 0 {
			in.data = data[1+at:] // the object
		}
		return kind, of, in, nil
	}
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	var is struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(data, &event) != nil || len(event.Object) > 0 && json.Unmarshal(event.Object, &is) != nil {
		return "", "", in, errJSON
	}
	in.data, in.size = event.Object, int64(len(event.Object))
	return event.Type, is.Kind, in, nil
}

// maxIdentityDepth is how deep what names the object of an event is.
const maxIdentityDepth = 3

// passOver reads the rest of an object or array that has begun.
func passOver(d *json.Decoder) error {
	for depth := 1; depth > 0; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
	return nil
}

// scalars calls found with the strings of objects within objects, by their paths, until the data ends or is no JSON.
func scalars(d *json.Decoder, found func(path, value string)) error {
	var walk func(path string, depth int) error
	walk = func(path string, depth int) error {
		t, err := d.Token()
		if text, ok := t.(string); ok {
			found(path, text)
		}
		if t == json.Delim('[') || t == json.Delim('{') && depth > maxIdentityDepth {
			return passOver(d)
		}
		if err != nil || t != json.Delim('{') {
			return err
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if name, ok := key.(string); ok {
				if err := walk(path+"."+name, depth+1); err != nil {
					return err
				}
			}
		}
		_, err = d.Token()
		return err
	}
	return walk("", 0)
}

// jsonIdentity returns what names an object, from its first bytes.
func jsonIdentity(data []byte) (i identity) {
	_ = scalars(json.NewDecoder(bytes.NewReader(data)), func(path, value string) {
		switch path {
		case ".metadata.name":
			i.name = value
		case ".metadata.namespace":
			i.namespace = value
		case ".metadata.uid":
			i.uid = value
		case ".metadata.resourceVersion":
			i.version = value
		}
	})
	return i
}
