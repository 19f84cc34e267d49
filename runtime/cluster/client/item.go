package client

import (
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	k8sjson "sigs.k8s.io/json"
)

// unreadable is the annotation of a stub for an object that cannot be read; its value says why. No object of the API
// server keeps this annotation: it is removed from objects that can be read.
const unreadable = "journalet.io/unreadable"

// prefixBytes is how much is read of an object beyond its bound: what names it comes first, in a few hundred bytes.
const prefixBytes = 4 << 10

// Unreadable returns why an object could not be read; "" for an object that could be read. Of an unreadable object only
// the names are known, and without a UID not even the names.
func Unreadable(o metav1.Object) string { return o.GetAnnotations()[unreadable] }

// ErrUnreadable is in the error of a list of the one object that a field selector names, if that cannot be read.
var ErrUnreadable = errors.New("cannot be read")

// LeftOut is an object of the API server that is left out of a list or watch.
type LeftOut struct {
	// Resource is its name in paths. Namespace, Name and UID are empty as far as they cannot be read.
	Resource, Namespace, Name string
	UID                       types.UID
	// One means that it is followed alone: who follows it gets ErrUnreadable.
	One bool
	// Reason is why, without any of the object's contents.
	Reason string
}

// LeaveOut reports what who follows a resource leaves out by itself.
func (c *Client) LeaveOut(o LeftOut) { c.shared.leftOut(o) }

// identity is what names an object, and its version.
type identity struct {
	namespace, name, uid, version string
}

// known reports whether an identity is whole, and none that would harm who reads it.
func (i identity) known() bool {
	return i.uid != "" && i.version != "" && len(i.uid) <= validation.DNS1123LabelMaxLength &&
		len(i.version) <= validation.DNS1123LabelMaxLength && utf8.ValidString(i.uid) && utf8.ValidString(i.version) &&
		len(validation.IsDNS1123Subdomain(i.name)) == 0 &&
		(i.namespace == "" || len(validation.IsDNS1123Label(i.namespace)) == 0)
}

// item is one object as it came.
type item struct {
	// data is the object, or its first bytes if it has more than it may.
	data []byte
	size int64
	// as is how it is encoded.
	as encoding
}

var errInvalidUTF8 = errors.New("it has a string that is not UTF-8")

// decode decodes an item. The error has none of its contents.
func decodeItem[T any](r *Resource[T], in item, into *T) error {
	if in.size > min(int64(len(in.data)), in.as.most()) {
		return fmt.Errorf("it has %d bytes, and may have %d", in.size, in.as.most())
	}
	object := r.object(into)
	if in.as == asProtobuf {
		message, ok := object.(interface{ Unmarshal(data []byte) error })
		if !ok || message.Unmarshal(in.data) != nil {
			return errors.New("it cannot be decoded")
		}
	} else if k8sjson.UnmarshalCaseSensitivePreserveInts(in.data, into) != nil {
		return errors.New("it cannot be decoded")
	}
	meta, ok := object.(metav1.Object)
	if !ok {
		return errors.New("it has no name")
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as client-go decodes it
	meta.SetManagedFields(nil)                                            // most of an object, and nobody reads them
	if a := meta.GetAnnotations(); a[unreadable] != "" {
		delete(a, unreadable)
	}
	if r.Reduced != nil {
		r.Reduced(into)
	}
	// JSON is decoded into valid strings.
	if in.as == asProtobuf && !validStrings(reflect.ValueOf(into)) {
		return errInvalidUTF8
	}
	return nil
}

// stub returns a stub for an object that cannot be read.
func stub[T any](r *Resource[T], i identity, why error) *T {
	out := new(T)
	if meta, ok := r.object(out).(metav1.Object); ok {
		meta.SetNamespace(i.namespace)
		meta.SetName(i.name)
		meta.SetUID(types.UID(i.uid))
		meta.SetResourceVersion(i.version)
		meta.SetAnnotations(map[string]string{unreadable: why.Error()})
	}
	return out
}

// validStrings reports whether all strings of a value are UTF-8. Protobuf does not say so by itself, and what is stored
// of them would be others than what is in use.
func validStrings(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || validStrings(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !validStrings(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		if kind := v.Type().Elem().Kind(); kind == reflect.Uint8 {
			return true
		}
		for i := range v.Len() {
			if !validStrings(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			if !validStrings(at.Key()) || !validStrings(at.Value()) {
				return false
			}
		}
	}
	return true
}
