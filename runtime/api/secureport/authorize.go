package secureport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// reviewTimeout bounds a review with its second attempt (kubelet: 10 s).
const reviewTimeout = 10 * time.Second

// authorize reports whether a user may send a request. An error means that the API server has not answered.
func (s *Server) authorize(ctx context.Context, u *User, verb, subresource string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: s.opts.NodeName,
		},
	}
	for k, v := range u.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[k] = v
	}
	key, err := json.Marshal(&spec) // sorts maps
	if err != nil {
		return false, err
	}
	answer, err := s.access.get(key, func(bool) (any, bool, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		review, err := twice(ctx, s.opts.ReviewAccess, &authorizationv1.SubjectAccessReview{Spec: spec})
		if err != nil {
			return false, false, err
		}
		yes := review.Status.Allowed && !review.Status.Denied
		return yes, yes, nil
	})
	if err != nil {
		return false, err
	}
	return answer.(bool), nil
}

// permitted returns 200 if one of the subresources is permitted, else the status and the text of the response.
func (s *Server) permitted(r *http.Request, u *User) (code int, text string) {
	verb, all := s.verbOf(r), subresources(r.URL.Path)
	for _, subresource := range all {
		yes, err := s.authorize(r.Context(), u, verb, subresource)
		if err != nil {
			s.opts.Log.Warn("no answer from the API server about a request", "user", u.String(), "verb", verb,
				"subresource", subresource, "error", err)
			return http.StatusInternalServerError, denial("Authorization error", u, verb, subresource)
		}
		if yes {
			return http.StatusOK, ""
		}
	}
	return http.StatusForbidden, denial("Forbidden", u, verb, all...) + "\n"
}

// twice sends a review, and sends it again if the connection failed: a connection that the API server has closed shows
// that only on use. A review changes nothing.
func twice[T any](ctx context.Context, send func(context.Context, *T) (*T, error), review *T) (*T, error) {
	answer, err := send(ctx, review)
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) || ctx.Err() != nil {
		return answer, err
	}
	return send(ctx, review)
}
