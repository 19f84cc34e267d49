package fullpod

import (
	"iter"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fill gives every field below what a pointer points to something, and every list and map one element.
func Fill(pointer any) { fill(reflect.ValueOf(pointer).Elem()) }

// Each returns copies of a pod by the name of a field: a copy has this field of the spec, the first container or a
// volume filled. The pod stays on its node.
func Each(base *corev1.Pod) iter.Seq2[string, *corev1.Pod] {
	return func(yield func(string, *corev1.Pod) bool) {
		for _, part := range []func(*corev1.Pod) any{
			func(p *corev1.Pod) any { return &p.Spec },
			func(p *corev1.Pod) any { return &p.Spec.Containers[0] },
			func(p *corev1.Pod) any {
				p.Spec.Volumes = []corev1.Volume{{Name: "v"}}
				return &p.Spec.Volumes[0].VolumeSource
			},
		} {
			structure := reflect.TypeOf(part(base.DeepCopy())).Elem()
			for i := range structure.NumField() {
				p := base.DeepCopy()
				fill(reflect.ValueOf(part(p)).Elem().Field(i))
				p.Spec.NodeName = base.Spec.NodeName
				if !yield(structure.Name()+"."+structure.Field(i).Name, p) {
					return
				}
			}
		}
	}
}

func fill(v reflect.Value) {
	switch is := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*is = resource.MustParse("1500m")
		return
	case *metav1.Time:
		*is = metav1.Unix(1, 0)
		return
	case *metav1.FieldsV1:
		is.SetRawString("{}")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	default:
		panic("fullpod: a field of a pod is a " + v.Kind().String())
	}
}
