package calls

import (
	"errors"

	"github.com/journalet/journalet/messages/journaletv1"
)

// MaxMessageBytes is what the journal keeps of a failure's message (messages/clean): runtimes put whole command outputs
// into errors.
const MaxMessageBytes = 4 << 10

// Failure is a definite outcome that is not success.
type Failure struct {
	Code      journaletv1.CallError
	Message   string
	Retryable bool
	// MissingImage is the image volume that CALL_ERROR_IMAGE_NOT_PRESENT is about; "": the container's own image.
	MissingImage string
	// Gone are the volumes that were set up and are gone, with CALL_ERROR_VOLUME of a StartContainer.
	Gone []*journaletv1.VolumeOutcome
	// FailedStart is what is known of CALL_ERROR_START.
	FailedStart journaletv1.FailedStart
	// NameHolder is the UID of the pod that CALL_ERROR_NAME_TAKEN is about.
	NameHolder string
}

func (f *Failure) Error() string { return f.Message }

// Fail returns a failure that repeating the call does not mend.
func Fail(code journaletv1.CallError, message string) *Failure {
	return &Failure{Code: code, Message: message}
}

// Retryable returns a failure after which the same call may succeed.
func Retryable(code journaletv1.CallError, message string) *Failure {
	return &Failure{Code: code, Message: message, Retryable: true}
}

// IsFailure reports whether an error is a definite outcome.
func IsFailure(err error) bool {
	var f *Failure
	return errors.As(err, &f)
}

// FailureOf returns the failure that an error is. An error of another kind is the runtime's, and may pass.
func FailureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
}
