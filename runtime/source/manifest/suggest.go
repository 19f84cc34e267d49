package manifest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxTypos is the maximum distance of a misspelled field's name.
const maxTypos = 2

// suggest returns the remedy for an unknown field: a field with a similar name, or the parent to which it belongs.
func (s *shape) suggest(key string, known map[string]reflect.Type) string {
	if len(key) > maxSuggestBytes {
		return "remove it, or check its spelling and its indentation"
	}
	names := slices.Sorted(maps.Keys(known))
	for _, name := range names {
		if strings.EqualFold(name, key) {
			return "write " + name
		}
	}
	if under := s.parentOf(key, known, names); under != "" {
		return "move it under " + under
	}
	best, typos := "", maxTypos+1
	for _, name := range names {
		if n := Distance(strings.ToLower(key), strings.ToLower(name)); n < typos && n < len(key)/2 {
			best, typos = name, n
		}
	}
	if best != "" {
		return "write " + best + " if you meant it, or remove it"
	}
	return "remove it, or check its spelling and its indentation"
}

// parentOf returns the only sibling of a misplaced field that has it as a child; "" if no sibling or several do. Of the
// lists of containers it returns the main list.
func (s *shape) parentOf(key string, known map[string]reflect.Type, names []string) string {
	var all []string
	for _, name := range names {
		t := known[name]
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || name == "status" || name == "initContainers" || name == "ephemeralContainers" {
			continue
		}
		if _, has := s.known.fieldsOf(t)[key]; has {
			all = append(all, name)
		}
	}
	switch {
	case len(all) == 1:
		return all[0]
	case slices.Contains(all, "containers"):
		return "containers"
	}
	return ""
}

// Distance returns how many bytes have to be added, removed or replaced to get from one word to another.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
