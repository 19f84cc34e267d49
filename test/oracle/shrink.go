package oracle

import (
	"sigs.k8s.io/yaml"
)

// maxShrinks bounds the attempts to shrink a case.
const maxShrinks = 3000

// shrink removes parts of a case as long as the difference stays, so that the reported case holds only what causes it.
func shrink(c comparer, key string, d difference) difference {
	var root any
	if yaml.Unmarshal([]byte(d.shows), &root) != nil {
		return d
	}
	tries, others := 0, 0
	still := func() bool {
		if tries++; tries > maxShrinks {
			return false
		}
		data, err := yaml.Marshal(root)
		if err != nil {
			return false
		}
		t := newTally(c)
		c.do(&testCase{name: d.subject, text: string(data), tally: t})
		if len(t.found[key]) == 0 || others > 0 && len(t.found) > others {
			return false // it no longer occurs, or others occur, which would distract
		}
		others = len(t.found)
		d = t.found[key][0]
		return true
	}
	for cutAny(root, func(any) {}, still) && tries <= maxShrinks {
	}
	return d
}

// cutAny tries to remove each part of a tree, larger ones first, and reports whether it removed one. put replaces the
// tree itself if it is a list, whose length changes.
func cutAny(tree any, put func(any), still func() bool) bool {
	cut := false
	switch t := tree.(type) {
	case map[string]any:
		for _, key := range sortedKeys(t) {
			v := t[key]
			delete(t, key)
			if still() {
				cut = true
				continue
			}
			t[key] = v
			cut = cutAny(v, func(n any) { t[key] = n }, still) || cut
		}
	case []any:
		for i := 0; i < len(t); {
			shorter := append(append([]any{}, t[:i]...), t[i+1:]...)
			put(shorter)
			if still() {
				t, cut = shorter, true
				continue
			}
			put(t)
			cut = cutAny(t[i], func(n any) { t[i] = n }, still) || cut
			i++
		}
	}
	return cut
}
