package journal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/bundle"
)

// reasons are the reasons of a Status, by its code. A Status with another code has no reason.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

// fail answers with a Status of the Kubernetes API: clients of the API server print its message.
func fail(w http.ResponseWriter, err error) {
	code := codeOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the client has left
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: err.Error(), Reason: reasons[code], Code: int32(code),
	})
}

func codeOf(err error) int {
	var answered *query.Error // its codes are HTTP's
	switch {
	case errors.As(err, &answered):
		return answered.Code
	case errors.Is(err, bundle.ErrNothing), errors.Is(err, history.ErrGone), errors.Is(err, history.ErrNoRecord):
		return http.StatusNotFound
	case errors.Is(err, query.ErrNoAgent), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func badRequest(message string) error {
	return &query.Error{Code: query.CodeBadRequest, Message: message}
}
