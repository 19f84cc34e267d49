package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/runtime/pattern"
)

var (
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	quantityType    = reflect.TypeFor[resource.Quantity]()

	// hugeExponent is refused before parsing: the quantity parser would compute 1e999999999 to compare it.
	hugeExponent = pattern.Lazy(`[eE][-+]?[0-9]{3,}`)
)

// maxQuantityBytes bounds the text of a quantity; a useful one has about ten.
const maxQuantityBytes = 64

// shape checks a tree against the Go type into which it will be decoded, and reports the line of every mismatch.
type shape struct {
	report *report
	known  fieldTypes
	broken bool // a value does not fit its type, so decoding would fail
}

// fieldTypes caches the fields of struct types during one call of Decode.
type fieldTypes map[reflect.Type]map[string]reflect.Type

func (f fieldTypes) fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields, ok := f[t]
	if !ok {
		fields = make(map[string]reflect.Type, t.NumField())
		jsonFields(t, fields)
		f[t] = fields
	}
	return fields
}

func (s *shape) check(n *node, t reflect.Type, path string) {
	if s.report.full() || n.isNull() && t.Kind() != reflect.Struct {
		return
	}
	if reflect.PointerTo(t).Implements(unmarshalerType) {
		s.opaque(n, t, path)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		s.check(n, t.Elem(), path)
	case reflect.Struct:
		if !n.isNull() && s.want(n, mapNode, "a mapping", path) {
			s.fields(n, t, path)
		}
	case reflect.Map:
		if !s.want(n, mapNode, "a mapping", path) {
			return
		}
		s.duplicates(n, path)
		for _, e := range n.entries {
			s.check(e.val, t.Elem(), path+"["+e.key+"]")
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			s.opaque(n, t, path)
			return
		}
		if s.want(n, listNode, "a list", path) {
			for i, item := range n.items {
				s.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	default:
		s.scalar(n, t, path)
	}
}

func (s *shape) fields(n *node, t reflect.Type, path string) {
	s.duplicates(n, path)
	known := s.known.fieldsOf(t)
	for _, e := range n.entries {
		at := join(path, e.key)
		if fieldType, ok := known[e.key]; ok {
			s.check(e.val, fieldType, at)
			continue
		}
		s.report.add(e.line, at, CodeUnknownField, "no such field", s.suggest(e.key, known))
	}
}

func (s *shape) duplicates(n *node, path string) {
	for _, d := range n.dups {
		s.report.add(d.line, join(path, d.key), CodeDuplicateField, "the same field twice", "keep one of the two")
	}
}

func (s *shape) want(n *node, kind nodeKind, name, path string) bool {
	if n.kind == kind {
		return true
	}
	remedy := "write it as key: value"
	if kind == listNode {
		remedy = `begin each item with "- " on a line of its own, or write [a, b]`
	}
	s.misfit(n, path, "wants "+name+", found "+n.typeName(), remedy)
	return false
}

func (s *shape) misfit(n *node, path, message, remedy string) {
	s.broken = true
	s.report.add(n.line, path, CodeWrongType, message, remedy)
}

func (s *shape) scalar(n *node, t reflect.Type, path string) {
	want, remedy := "a number", ""
	switch t.Kind() {
	case reflect.String:
		want, remedy = "a string", "put it in quotes"
	case reflect.Bool:
		want, remedy = "true or false", "write it without quotes"
	case reflect.Int32, reflect.Int64, reflect.Int:
		want = "a whole number of " + fmt.Sprint(t.Bits()) + " bits"
		remedy = "write a bare number, without quotes, unit or fraction"
	}
	if n.kind != scalarNode {
		s.misfit(n, path, "wants "+want+", found "+n.typeName(), "write one value, on the same line")
		return
	}
	if json.Unmarshal(n.raw, reflect.New(t).Interface()) != nil {
		s.misfit(n, path, "wants "+want+", found "+n.typeName(), remedy)
	}
}

// opaque checks a type with its own JSON decoder, such as a quantity or a time, by decoding it.
func (s *shape) opaque(n *node, t reflect.Type, path string) {
	raw := n.appendJSON(nil)
	if t == quantityType {
		if n.kind != scalarNode || len(raw) > maxQuantityBytes || hugeExponent().Match(raw) ||
			json.Unmarshal(raw, &resource.Quantity{}) != nil {
			s.misfit(n, path, "not a quantity", "write a number with a unit, such as 500m, 2 or 128Mi")
		}
		return
	}
	if json.Unmarshal(raw, reflect.New(t).Interface()) != nil {
		if t.Kind() == reflect.Slice {
			s.misfit(n, path, "is not base64", "encode it; text of a Secret may be under stringData as it is")
			return
		}
		s.misfit(n, path, "cannot be read as "+t.Name()+", found "+n.typeName(), "correct the value")
	}
}

// jsonFields adds the JSON names and types of a struct's fields to into; embedded structs without a name are inlined.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		switch {
		case name != "":
			into[name] = f.Type
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			jsonFields(f.Type, into)
		}
	}
}

// jsonName returns a field's name in JSON; "" if it has none.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "-" || !f.IsExported():
		return ""
	case name == "" && !f.Anonymous:
		return f.Name
	}
	return name
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	if name == "" {
		return path
	}
	return path + "." + name
}
