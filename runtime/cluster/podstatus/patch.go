package podstatus

import (
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// mergeKeys are the lists of a status that a strategic merge patch merges, by the key of their elements. All others it
// replaces.
var mergeKeys = map[string]string{"conditions": "type", "hostIPs": "ip", "podIPs": "ip"}

// Patch returns the strategic merge patch from one status of a pod to another, nil if they are equal. The API server
// refuses it if the pod has another UID. It is built here, because apimachinery's own brings the models of API
// documents with it, 4 MiB.
func Patch(uid types.UID, is, to *corev1.PodStatus) ([]byte, error) {
	if equality.Semantic.DeepEqual(is, to) {
		return nil, nil
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(is)
	if err != nil {
		return nil, err
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(to)
	if err != nil {
		return nil, err
	}
	status := diff(before, after)
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
}

// diff returns what differs of two objects; what is gone is null.
func diff(is, to map[string]any) map[string]any {
	out := map[string]any{}
	for name := range is {
		if _, ok := to[name]; !ok {
			out[name] = nil
		}
	}
	for name, want := range to {
		has, ok := is[name]
		if ok && reflect.DeepEqual(has, want) {
			continue
		}
		fields, isObject := want.(map[string]any)
		before, wasObject := has.(map[string]any)
		list, isList := want.([]any)
		switch old, _ := has.([]any); {
		case isObject && wasObject:
			out[name] = diff(before, fields)
		case isList && mergeKeys[name] != "":
			diffList(out, name, old, list)
		default:
			out[name] = want
		}
	}
	for name := range out {
		// A list that is merged is not emptied by null.
		if old, _ := is[name].([]any); out[name] == nil && mergeKeys[name] != "" {
			diffList(out, name, old, nil)
		}
	}
	return out
}

// diffList adds to a patch what differs of two lists whose elements have a key, and their new order.
func diffList(out map[string]any, name string, is, to []any) {
	key := mergeKeys[name]
	before := map[any]map[string]any{}
	for _, e := range is {
		if m, ok := e.(map[string]any); ok {
			before[m[key]] = m
		}
	}
	changed, order := []any{}, []any{}
	for _, e := range to {
		m, _ := e.(map[string]any)
		order = append(order, map[string]any{key: m[key]})
		d := diff(before[m[key]], m)
		_, existed := before[m[key]]
		delete(before, m[key])
		if len(d) > 0 || !existed {
			d[key] = m[key]
			changed = append(changed, d)
		}
	}
	for _, e := range is {
		if m, _ := e.(map[string]any); before[m[key]] != nil {
			changed = append(changed, map[string]any{"$patch": "delete", key: m[key]})
		}
	}
	if len(changed) > 0 {
		out[name] = changed
	} else {
		delete(out, name)
	}
	out["$setElementOrder/"+name] = order
}
