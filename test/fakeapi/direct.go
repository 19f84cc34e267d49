package fakeapi

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Create stores an object of the resource, as a client's POST does, and returns its UID: the object's own UID if it has
// one, such as the UID of an object that is gone. It panics on what the server refuses: a test of a refusal sends a
// request.
func (s *Server) Create(resource string, o metav1.Object) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, err := s.create(keyOf(resource, o), toObject(o), string(o.GetUID()))
	if err != nil {
		panic(fmt.Sprintf("fakeapi: %s %s/%s: %v", resource, o.GetNamespace(), o.GetName(), err))
	}
	return stored.text("metadata", "uid")
}

// Get decodes an object into typed and reports whether there is one.
func (s *Server) Get(resource, namespace, name string, typed any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key{resource, namespace, name}]
	if o == nil {
		return false
	}
	if err := o.into(typed); err != nil {
		panic(fmt.Sprintf("fakeapi: %s %s/%s: %v", resource, namespace, name, err))
	}
	return true
}

// Change replaces an object by what change makes of it, as a PUT of the subresource does, and reports whether there is
// one. typed is an empty object of the type, which change then holds.
func (s *Server) Change(resource, subresource, namespace, name string, typed any, change func()) bool {
	if !s.Get(resource, namespace, name, typed) {
		return false
	}
	change()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := toObject(typed)
	delete(o.meta(), "resourceVersion")
	if _, err := s.update(key{resource, namespace, name}, subresource, o); err != nil {
		panic(fmt.Sprintf("fakeapi: %s %s/%s: %v", resource, namespace, name, err))
	}
	return true
}

// Delete deletes an object with a grace period in seconds, a negative one for its own, and reports whether there was
// one. 0 is a forced deletion.
func (s *Server) Delete(resource, namespace, name string, grace int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.remove(key{resource, namespace, name}, "", grace)
	return err == nil
}

func keyOf(resource string, o metav1.Object) key {
	k := key{resource, o.GetNamespace(), o.GetName()}
	if !kinds[resource].clusterScoped && k.namespace == "" {
		k.namespace = "default"
	}
	return k
}
