package kubelet

import (
	"fmt"
	"reflect"
	"unsafe"
)

// set sets an unexported field of a struct. If the field does not exist, or has another type, the kubelet has
// changed, and this package has to follow: set panics with the name.
func set(object any, name string, value any) {
	field := reflect.ValueOf(object).Elem().FieldByName(name)
	if !field.IsValid() {
		panic(fmt.Sprintf("oracle: %T has no field %s any more; find its replacement in this version of the kubelet", object,
			name))
	}
	v := reflect.ValueOf(value)
	if !v.Type().AssignableTo(field.Type()) {
		panic(fmt.Sprintf("oracle: field %s of %T is a %s, not a %s", name, object, field.Type(), v.Type()))
	}
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(v)
}

// get reads an unexported field.
func get[T any](object any, name string) T {
	field := reflect.ValueOf(object).Elem().FieldByName(name)
	if !field.IsValid() {
		panic(fmt.Sprintf("oracle: %T has no field %s any more; find its replacement in this version of the kubelet", object,
			name))
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(T)
}
