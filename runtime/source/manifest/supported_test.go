package manifest

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEveryFieldIsSupportedOrRefused sets each field of the Pod type, one at a time, including fields that the next
// version of the Kubernetes types adds.
func TestEveryFieldIsSupportedOrRefused(t *testing.T) {
	used := map[string]bool{}
	visited := 0
	eachField(reflect.TypeFor[corev1.Pod](), "", func(path string, steps []int) {
		if path == "status" || strings.HasPrefix(path, "status.") {
			return // dropped as a whole
		}
		visited++
		pod := &corev1.Pod{}
		if !setField(reflect.ValueOf(pod).Elem(), steps) {
			t.Fatalf("%s: cannot be set, so this test needs to learn its type", path)
		}
		r := &report{path: "p", root: &node{kind: mapNode, line: 1}}
		checkSupported(r, pod)
		want := listedLeaf(path, used)
		if got := len(r.problems) == 0; got != want {
			t.Errorf("%s: supported %v, want %v: %v", path, got, want, r.problems)
		}
	}, nil)
	for path, listed := range supportedFields() {
		if listed && !used[path] {
			t.Errorf("%s is listed, but is not a field of a pod", path)
		}
	}
	if visited < 500 {
		t.Errorf("only %d fields visited", visited)
	}
}

// listedLeaf reports by supportedFields alone, without the tested walk, whether a leaf is supported.
func listedLeaf(path string, used map[string]bool) bool {
	for listed, isListed := range supportedFields() {
		if isListed && (path == listed || strings.HasPrefix(path, listed+".") || strings.HasPrefix(path, listed+"[")) {
			used[listed] = true
			return true
		}
	}
	return false
}

// eachField calls leaf with the path of every field without fields, and the steps to it.
func eachField(t reflect.Type, path string, leaf func(string, []int), steps []int) {
	switch t.Kind() {
	case reflect.Pointer:
		eachField(t.Elem(), path, leaf, steps)
		return
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			eachField(t.Elem(), path+"[]", leaf, steps)
			return
		}
	case reflect.Struct:
		fields := 0
		for i := range t.NumField() {
			f := t.Field(i)
			embedded := f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Struct && f.Tag != ""
			if name := jsonName(f); name != "" || embedded {
				fields++
				eachField(f.Type, join(path, name), leaf, append(steps[:len(steps):len(steps)], i))
			}
		}
		if fields > 0 {
			return
		}
	}
	leaf(path, steps)
}

// setField sets a field, and creates its parents.
func setField(v reflect.Value, steps []int) bool {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return len(steps) == 0 || setField(v.Elem(), steps)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		return setField(v.Index(0), steps)
	case reflect.Struct:
		if len(steps) > 0 {
			return setField(v.Field(steps[0]), steps[1:])
		}
		return setOpaque(v)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	default:
		return false
	}
	return true
}

// setOpaque sets a struct with private fields, such as a time or a quantity.
func setOpaque(v reflect.Value) bool {
	unmarshaler, ok := v.Addr().Interface().(interface{ UnmarshalJSON([]byte) error })
	if !ok {
		return v.NumField() == 0
	}
	for _, text := range []string{`"2020-01-01T00:00:00Z"`, `"2020-01-01T00:00:00.000000Z"`, `"5"`, `{"a":{}}`} {
		if unmarshaler.UnmarshalJSON([]byte(text)) == nil {
			return true
		}
	}
	return false
}
