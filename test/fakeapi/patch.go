package fakeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// patch applies a strategic merge or a merge patch. The caller holds s.mu.
func (s *Server) patch(k key, r APIRequest) (object, error) {
	old := s.objects[k]
	if old == nil {
		return nil, notFound(k)
	}
	patch, err := decodeJSON(r.Body)
	if err != nil {
		return nil, err
	}
	var next object
	switch how, _, _ := strings.Cut(r.HTTP.Header.Get("Content-Type"), ";"); types.PatchType(how) {
	case types.StrategicMergePatchType:
		part := old
		if r.Subresource == "status" { // nothing else changes, and a spec may be large
			part = maps.Clone(old)
			delete(part, "spec")
		}
		next, err = strategicMerge(part, r.Body, kinds[k.resource].typed)
	case types.MergePatchType:
		next, _ = mergePatch(map[string]any(old.clone()), map[string]any(patch)).(map[string]any)
	default:
		err = &refusal{http.StatusUnsupportedMediaType, "UnsupportedMediaType", "patch type " + how}
	}
	if err != nil {
		return nil, err
	}
	if patch.text("metadata", "resourceVersion") == "" {
		delete(next.meta(), "resourceVersion") // no precondition: the patch applies to what is newest
	}
	return s.update(k, r.Subresource, next)
}

func strategicMerge(old object, patch []byte, typed any) (object, error) {
	text, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(text, patch, typed)
	if err != nil {
		return nil, &refusal{http.StatusUnprocessableEntity, "Invalid", err.Error()}
	}
	return decodeJSON(merged)
}

// mergePatch applies a patch of RFC 7396.
func mergePatch(old, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	next, ok := old.(map[string]any)
	if !ok {
		next = map[string]any{}
	}
	for name, value := range fields {
		if value == nil {
			delete(next, name)
		} else {
			next[name] = mergePatch(next[name], value)
		}
	}
	return next
}

// tokenLifetime is the lifetime of a token whose request names no lifetime. API server: 1 h.
const tokenLifetime = time.Hour

// review answers the requests that store nothing; ok is false for others.
func (s *Server) review(r APIRequest) (body any, ok bool, err error) {
	if r.Verb != "create" {
		return nil, false, nil
	}
	switch {
	case r.Resource == "serviceaccounts" && r.Subresource == "token":
		body, err = s.token(r)
	case r.Resource == "tokenreviews.authentication.k8s.io":
		review := new(authenticationv1.TokenReview)
		if err = decodeInto(r.Body, review); err == nil && s.TokenReview != nil {
			s.TokenReview(review)
		}
		body = review
	case r.Resource == "subjectaccessreviews.authorization.k8s.io":
		review := &authorizationv1.SubjectAccessReview{}
		err = decodeInto(r.Body, review)
		review.Status.Allowed = s.AccessReview == nil
		if err == nil && s.AccessReview != nil {
			s.AccessReview(review)
		}
		body = review
	default:
		return nil, false, nil
	}
	return body, true, err
}

func decodeInto(body []byte, typed any) error {
	o, err := decodeBody(body)
	if err != nil {
		return err
	}
	return o.into(typed)
}

// token answers a TokenRequest.
func (s *Server) token(r APIRequest) (*authenticationv1.TokenRequest, error) {
	request := new(authenticationv1.TokenRequest)
	if err := decodeInto(r.Body, request); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.uids++
	number, known := s.uids, s.objects[key{"serviceaccounts", r.Namespace, r.Name}] != nil
	bound := request.Spec.BoundObjectRef
	var refused error
	if bound != nil && bound.Kind == "Pod" {
		pod := s.objects[key{"pods", r.Namespace, bound.Name}]
		if pod == nil {
			refused = notFound(key{"pods", r.Namespace, bound.Name})
		} else if uid := pod.text("metadata", "uid"); uid != string(bound.UID) {
			refused = conflict("the UID of the bound object reference is %s, that of the pod %s", bound.UID, uid)
		}
	}
	s.mu.Unlock()
	if !known {
		return nil, notFound(key{"serviceaccounts", r.Namespace, r.Name})
	}
	if refused != nil {
		return nil, refused
	}
	lifetime := tokenLifetime
	if n := request.Spec.ExpirationSeconds; n != nil {
		lifetime = time.Duration(*n) * time.Second
	}
	request.Status = authenticationv1.TokenRequestStatus{
		Token:               fmt.Sprintf("token-%s-%d", r.Name, number),
		ExpirationTimestamp: metav1.NewTime(s.Now().Add(lifetime)),
	}
	if s.Token != nil {
		if err := s.Token(r.Namespace, r.Name, request); err != nil {
			return nil, err
		}
	}
	return request, nil
}
