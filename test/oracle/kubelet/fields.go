package kubelet

import (
	"fmt"
	"reflect"
	"unsafe"
)

// set gives an unexported field of a struct its value. A field that is gone, or has another type, is a change of the
// kubelet that this package has to follow: it panics with the name.
func set(object any, name string, value any) {
	field := reflect.ValueOf(object).Elem().FieldByName(name)
	if !field.IsValid() {
		panic(fmt.Sprintf("oracle: %T has no field %s any more; see what this version of the kubelet has instead", object, name))
	}
	v := reflect.ValueOf(value)
	if !v.Type().AssignableTo(field.Type()) {
		panic(fmt.Sprintf("oracle: field %s of %T is a %s and no %s", name, object, field.Type(), v.Type()))
	}
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(v)
}

// get reads an unexported field.
func get[T any](object any, name string) T {
	field := reflect.ValueOf(object).Elem().FieldByName(name)
	if !field.IsValid() {
		panic(fmt.Sprintf("oracle: %T has no field %s any more; see what this version of the kubelet has instead", object, name))
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(T)
}
