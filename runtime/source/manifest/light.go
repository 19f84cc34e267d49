package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/defect"
)

// maxLightBytes bounds each text of a light pod that only the pod's own processes read, and each list of such texts.
// The scripts of most pods are below.
const maxLightBytes = 1 << 10

// Light returns what of a pod deciders and watches keep in memory: its large arguments, variables and the like, which
// only its own processes read, are replaced by their digests. It is the pod itself if none is large. Two pods are
// equal if their light ones are.
func Light(pod *corev1.Pod) *corev1.Pod { return lightBy(pod, lighten) }

// lightBy returns the pod itself if lighten panics: this pod takes more memory, and nothing else depends on it.
func lightBy(pod *corev1.Pod, lighten func(reflect.Value) bool) (light *corev1.Pod) {
	if pod.Spec.Size() <= maxLightBytes {
		return pod
	}
	defer defect.Recover(func(string) { light = pod })
	light = pod.DeepCopy()
	if !lighten(reflect.ValueOf(&light.Spec).Elem()) {
		return pod
	}
	return light
}

// lighten reports whether it has replaced anything below a value.
func lighten(v reflect.Value) (changed bool) {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && lighten(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			changed = lighten(v.Index(i)) || changed
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			if !field.CanSet() {
				continue // a part of a quantity or a time
			}
			if env, ok := field.Interface().([]corev1.EnvVar); ok {
				light, done := lightEnv(env)
				field.Set(reflect.ValueOf(light))
				changed = changed || done
			} else if data[v.Type().Name()+"."+v.Type().Field(i).Name] {
				changed = lightData(field) || changed
			} else {
				changed = lighten(field) || changed
			}
		}
	}
	return changed
}

// lightData reports whether it has replaced a text, a list of texts or a map of them.
func lightData(v reflect.Value) bool {
	switch is := v.Interface().(type) {
	case string:
		if sum, large := lightSum(is); large {
			v.SetString(sum)
			return true
		}
	case []string:
		if sum, large := lightSum(is...); large {
			v.Set(reflect.ValueOf([]string{sum}))
			return true
		}
	case map[string]string:
		var all []string
		for _, key := range slices.Sorted(maps.Keys(is)) {
			all = append(all, key, is[key])
		}
		if sum, large := lightSum(all...); large {
			v.Set(reflect.ValueOf(map[string]string{sum: ""}))
			return true
		}
	}
	return false
}

// lightEnv puts one variable in the place of those with a value, if these are large. The others refer to objects.
func lightEnv(env []corev1.EnvVar) (light []corev1.EnvVar, changed bool) {
	var all []string
	for i := range env {
		if env[i].ValueFrom == nil {
			all = append(all, strconv.Itoa(i), env[i].Name, env[i].Value)
		} else {
			light = append(light, env[i])
		}
	}
	sum, large := lightSum(all...)
	if !large {
		return env, false
	}
	return append(light, corev1.EnvVar{Name: sum}), true
}

// lightSum returns the digest of texts and whether they are large.
func lightSum(all ...string) (sum string, large bool) {
	n := 0
	for _, s := range all {
		n += len(s) + 1
	}
	if n <= maxLightBytes {
		return "", false
	}
	h, part := sha256.New(), make([]byte, 0, maxLightBytes)
	for _, s := range all {
		h.Write(append(strconv.AppendInt(part, int64(len(s)), 10), ':'))
		for ; len(s) > 0; s = s[min(len(s), cap(part)):] { // without a copy of all of it
			h.Write(append(part, s[:min(len(s), cap(part))]...))
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), true
}

// memory returns the bytes that the spec of a pod takes in memory, besides what allocations round up.
func memory(pod *corev1.Pod) int {
	spec := reflect.ValueOf(&pod.Spec).Elem()
	return int(spec.Type().Size()) + refers(spec)
}

// refers returns the bytes of what a value refers to.
func refers(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + refers(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += refers(v.Field(i))
		}
	case reflect.Slice:
		n = v.Len() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += refers(v.Index(i))
		}
	case reflect.Map:
		n = v.Len() * int(v.Type().Key().Size()+v.Type().Elem().Size())
		for key, value := range v.Seq2() {
			n += refers(key) + refers(value)
		}
	}
	return n
}
