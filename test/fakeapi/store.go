package fakeapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// refusal is an answer other than success.
type refusal struct {
	code            int
	reason, message string
}

func (r *refusal) Error() string { return r.message }

func conflict(format string, args ...any) *refusal {
	return &refusal{http.StatusConflict, "Conflict", fmt.Sprintf(format, args...)}
}

func notFound(k key) *refusal {
	return &refusal{http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", k.resource, k.name)}
}

// put stores after under k, nil to remove it, and sends the change to the watches. The caller holds s.mu.
func (s *Server) put(k key, after object) {
	before := s.objects[k]
	s.version++
	if after != nil {
		after.meta()["resourceVersion"] = strconv.Itoa(s.version)
		s.objects[k] = after
	} else {
		delete(s.objects, k)
	}
	c := change{key: k, version: s.version, before: before, after: after}
	s.history = append(s.history, c)
	for w := range s.watches {
		w.sendChange(c)
	}
}

// create stores a new object, with a UID of its own unless uid names one. The caller holds s.mu.
func (s *Server) create(k key, o object, uid string) (object, error) {
	o = o.clone()
	meta := o.meta()
	if prefix := o.text("metadata", "generateName"); k.name == "" && prefix != "" {
		s.uids++
		k.name = prefix + fmt.Sprintf("%05x", s.uids)
	}
	if k.name == "" {
		return nil, &refusal{http.StatusUnprocessableEntity, "Invalid", "metadata.name: Required value"}
	}
	if s.objects[k] != nil {
		return nil, &refusal{http.StatusConflict, "AlreadyExists", fmt.Sprintf("%s %q already exists", k.resource, k.name)}
	}
	meta["name"], meta["creationTimestamp"] = k.name, stamp(s.Now())
	if k.namespace != "" {
		meta["namespace"] = k.namespace
	}
	if meta["uid"] = uid; uid == "" {
		meta["uid"] = s.newUID()
	}
	o["apiVersion"], o["kind"] = kinds[k.resource].apiVersion, kinds[k.resource].kind
	if _, has := o["spec"]; has {
		meta["generation"] = 1
	}
	if k.resource == "pods" {
		defaultPod(o)
	}
	s.put(k, o)
	return o, nil
}

// defaultPod sets the few defaults that tests depend on.
func defaultPod(o object) {
	spec := o.at("spec")
	for field, value := range map[string]any{
		"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
		"schedulerName": "default-scheduler", "securityContext": map[string]any{}, "enableServiceLinks": true,
	} {
		if spec != nil && spec[field] == nil {
			spec[field] = value
		}
	}
	if o.text("status", "phase") == "" {
		o["status"] = map[string]any{"phase": "Pending", "qosClass": "BestEffort"}
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// update replaces the part of an object that a subresource stands for: the status, the spec, or, without one, all but
// the status. The caller holds s.mu.
func (s *Server) update(k key, subresource string, now object) (object, error) {
	old := s.objects[k]
	if old == nil {
		return nil, notFound(k)
	}
	if uid := now.text("metadata", "uid"); uid != "" && uid != old.text("metadata", "uid") {
		return nil, conflict("Precondition failed: UID in precondition: %s, UID in object meta: %s",
			uid, old.text("metadata", "uid"))
	}
	if v := now.text("metadata", "resourceVersion"); v != "" && v != old.text("metadata", "resourceVersion") {
		return nil, conflict("%s %q: the object has been modified", k.resource, k.name)
	}
	next := s.merged(k, subresource, old, now)
	if equal(next, old) {
		return old, nil
	}
	if next.text("metadata", "deletionTimestamp") != "" && next.number("metadata", "deletionGracePeriodSeconds") == 0 &&
		!held(next) {
		s.put(k, nil)
		return next, nil
	}
	s.put(k, next)
	return next, nil
}

func (s *Server) merged(k key, subresource string, old, now object) object {
	next := old.clone()
	switch subresource {
	case "status", "approval":
		// A node's status may be written with the metadata of its object; the server keeps the latter.
		next["status"] = cloneValue(now["status"])
		return next
	case "":
		for field, value := range now {
			if field != "status" && field != "metadata" {
				next[field] = cloneValue(value)
			}
		}
		meta := now.clone().meta()
		for _, own := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
			"deletionGracePeriodSeconds", "generation", "resourceVersion"} {
			if v, has := old.meta()[own]; has {
				meta[own] = v
			} else {
				delete(meta, own)
			}
		}
		next["metadata"] = meta
		if kinds[k.resource].clusterScoped && k.resource != "nodes" {
			next["status"] = cloneValue(now["status"])
		}
	default: // ephemeralcontainers, resize
		next["spec"] = cloneValue(now["spec"])
	}
	if !equal(next["spec"], old["spec"]) {
		next.meta()["generation"] = old.number("metadata", "generation") + 1
	}
	return next
}

// held reports whether finalizers keep an object.
func held(o object) bool {
	finalizers, _ := o.at("metadata")["finalizers"].([]any)
	return len(finalizers) > 0
}

// remove deletes an object: with a grace period, if it is graceful and runs somewhere, else at once. uid, unless empty,
// is a precondition; grace, unless negative, the client's. The caller holds s.mu.
func (s *Server) remove(k key, uid string, grace int) (object, error) {
	old := s.objects[k]
	if old == nil {
		return nil, notFound(k)
	}
	if own := old.text("metadata", "uid"); uid != "" && uid != own {
		return nil, conflict("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, own)
	}
	if grace < 0 {
		grace = 0
		if kinds[k.resource].graceful {
			grace = old.number("spec", "terminationGracePeriodSeconds")
		}
	}
	phase := old.text("status", "phase")
	if !kinds[k.resource].graceful || old.text("spec", "nodeName") == "" || phase == "Succeeded" || phase == "Failed" {
		grace = 0
	}
	if grace == 0 && !held(old) {
		s.put(k, nil)
		return old, nil
	}
	deleting := old.text("metadata", "deletionTimestamp") != ""
	if deleting && old.number("metadata", "deletionGracePeriodSeconds") <= grace {
		return old, nil
	}
	next := old.clone()
	meta := next.meta()
	meta["deletionGracePeriodSeconds"] = grace
	meta["deletionTimestamp"] = stamp(s.Now().Add(time.Duration(grace) * time.Second))
	meta["generation"] = old.number("metadata", "generation") + 1
	s.put(k, next)
	return next, nil
}
