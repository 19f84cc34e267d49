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
	if _, err = space(r); err != nil {
		return into, 0, err
	}
	if err = r.UnreadByte(); err != nil {
		return into, 0, err
	}
	at := len(into)
	for v := (extent{}); !v.ended; {
		window, err := readable(r)
		if err != nil {
			return into, size, unexpected(err)
		}
		n := v.over(window)
		if left := most - size; left > 0 {
			into = append(into, window[:min(int64(n), left)]...)
		}
		if size += int64(n); size > limit {
			return into, size, fmt.Errorf("a value of the API server's answer has more than %d bytes", limit)
		}
		if size > most {
			into = into[:min(len(into), at+prefixBytes)]
		}
		if _, err = r.Discard(n); err != nil {
			return into, size, err
		}
	}
	return into, size, nil
}

// readable returns what is buffered, at least a byte; it reads when nothing is.
func readable(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	return r.Peek(r.Buffered())
}

// extent finds the end of a JSON value, window by window.
type extent struct {
	depth                   int
	quoted, escaped, scalar bool // scalar: in a number or a word outside an object and an array
	ended                   bool
}

// over returns how many bytes of the window belong to the value.
func (v *extent) over(window []byte) int {
	for i := 0; i < len(window); i++ {
		switch b := window[i]; {
		case v.escaped:
			v.escaped = false
			continue
		case v.quoted:
			for i < len(window) && window[i] != '"' && window[i] != '\\' {
				i++
			}
			if i == len(window) {
				return i
			}
			v.escaped, v.quoted = window[i] == '\\', window[i] != '"'
			if v.quoted {
				continue
			}
		case v.scalar:
			if v.ended = b == ',' || b == ']' || b == '}' || b == ':' || isSpace(b); v.ended {
				return i
			}
			continue
		case b == '"':
			v.quoted = true
			continue
		case b == '{' || b == '[':
			v.depth++
			continue
		case b == '}' || b == ']':
			v.depth--
		default:
			v.scalar = v.depth == 0
			continue
		}
		if v.ended = v.depth <= 0; v.ended {
			return i + 1
		}
	}
	return len(window)
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
func readJSONEvent(r *bufio.Reader) (kind, objectKind string, in item, err error) {
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
				objectKind = value
			}
		})
		if at := bytes.IndexByte(data[1:], '{'); at >= 0 {
			in.data = data[1+at:] // the object
		}
		return kind, objectKind, in, nil
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
