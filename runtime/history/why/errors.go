package why

import (
	"fmt"
	"strings"
	"time"
)

// NotFoundError reports that a pod, container or restart is not in the journal.
type NotFoundError struct{ Message string }

// Error returns what is not there, and what to do.
func (e *NotFoundError) Error() string { return e.Message }

func notFound(format string, args ...any) error { return &NotFoundError{fmt.Sprintf(format, args...)} }

// Incarnation is one pod that has had a name.
type Incarnation struct {
	Pod
	// FirstSeq and LastSeq are its first and last record, as far as the journal still holds them.
	FirstSeq uint64    `json:"firstSeq"`
	LastSeq  uint64    `json:"lastSeq"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// AmbiguousError reports that several pods have had a name and none of them is there now, or more than one.
type AmbiguousError struct {
	Name string
	Pods []Incarnation
}

// Error lists the pods.
func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods have had the name %q; choose one by its UID:", len(e.Pods), e.Name)
	for _, p := range e.Pods {
		fmt.Fprintf(&b, "\n  %s  %s  records %d to %d, %s to %s", p.UID, p.String(), p.FirstSeq, p.LastSeq,
			p.First.Format(time.RFC3339), p.Last.Format(time.RFC3339))
	}
	return b.String()
}
