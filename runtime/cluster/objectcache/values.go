package objectcache

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// maxBytes bounds the values of a list, which are in memory twice while the next one is read. 10,000 Services, the
	// most that Kubernetes is tested with, have 3 MiB with three ports each. Beyond it the largest namespace is left out:
	// no namespace takes the room of another.
	maxBytes = 24 << 20
	// valueBytes is what a value takes besides its texts: its place in a map, and the headers of its texts.
	valueBytes = 160
	// maxListBytes bounds the list that is kept, some 20,000 Services. Beyond it the largest namespaces are left out.
	maxListBytes = 4 << 20
)

// values are values by namespace, empty for a resource without, and name.
type values[V any] struct {
	size  func(V) int
	all   map[string]*group[V]
	bytes int
	// out are the namespaces whose values are left out until the next list.
	out map[string]bool
}

// group is the values of a namespace, by name.
type group[V any] struct {
	values map[string]V
	bytes  int
}

func newValues[V any](size func(V) int) *values[V] {
	return &values[V]{size: size, all: map[string]*group[V]{}, out: map[string]bool{}}
}

func (s *values[V]) get(namespace, name string) (v V, ok bool) {
	if in := s.all[namespace]; in != nil {
		v, ok = in.values[name]
	}
	return v, ok
}

// bytesOf is what a value takes.
func (s *values[V]) bytesOf(name string, v V) int { return valueBytes + len(name) + s.size(v) }

// set takes a value. For lack of room it leaves out the largest namespace from now on, or, of a resource without, the
// value: it returns either's name.
func (s *values[V]) set(namespace, name string, v V) (outNamespace, outName string) {
	if s.out[namespace] {
		return "", ""
	}
	s.remove(namespace, name)
	bytes := s.bytesOf(name, v)
	in := s.all[namespace]
	if in == nil {
		in = &group[V]{values: map[string]V{}}
		s.all[namespace] = in
	}
	in.values[name] = v
	in.bytes += bytes
	s.bytes += bytes
	if s.bytes <= maxBytes {
		return "", ""
	}
	out := client.Largest(s.all, namespace, func(in *group[V]) int { return in.bytes })
	if out == "" {
		s.remove(namespace, name)
		return "", name
	}
	s.out[out] = true
	s.bytes -= s.all[out].bytes
	delete(s.all, out)
	return out, ""
}

// remove forgets a value.
func (s *values[V]) remove(namespace, name string) {
	v, has := s.get(namespace, name)
	if !has {
		return
	}
	in, bytes := s.all[namespace], s.bytesOf(name, v)
	in.bytes -= bytes
	s.bytes -= bytes
	if delete(in.values, name); len(in.values) == 0 {
		delete(s.all, namespace)
	}
}

// encode returns the values as JSON. Without room for all namespaces, data has the smallest ones, and cut is the first
// namespace that it lacks. No more is encoded than there is room for.
func (s *values[V]) encode() (data []byte, cut string, err error) {
	kept, size := map[string]map[string]json.RawMessage{}, len(`{}`)
	for _, namespace := range slices.SortedFunc(maps.Keys(s.all), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.all[a].bytes, s.all[b].bytes), cmp.Compare(a, b))
	}) {
		size += len(namespace) + len(`"":{},`)
		encoded := map[string]json.RawMessage{}
		for name, v := range s.all[namespace].values {
			data, err := json.Marshal(v)
			if err != nil {
				return nil, "", err
			}
			if size += len(name) + len(data) + len(`"":,`); size > maxListBytes {
				data, err = json.Marshal(kept)
				return data, namespace, err
			}
			encoded[name] = data
		}
		kept[namespace] = encoded
	}
	data, err = json.Marshal(kept)
	return data, "", err
}

// take takes the values of a list that was kept.
func (s *values[V]) take(kept map[string]map[string]V) {
	for namespace, all := range kept {
		for name, v := range all {
			s.set(namespace, name, v)
		}
	}
}
