package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
)

// Limits of a question and its answer.
const (
	// MaxRecords bounds the records of one page.
	MaxRecords = 500
	// MaxPageEvents and maxPageBytes bound a page by what its records hold; a page ends after the
	// record that reaches either.
	MaxPageEvents = 2_000
	maxPageBytes  = 4 << 20
	// maxScan bounds how many records one page looks at to find those that match.
	maxScan = 20_000
	// maxListBytes bounds one page of a pod list; a single pod may be larger, up to maxResponse.
	maxListBytes = 4 << 20
	// maxResponse stays below the 16 MiB that one message on the bus may have.
	maxResponse = 15 << 20
	// maxRequest bounds a question.
	maxRequest = 64 << 10
	// maxWaiting is how many questions of one kind wait for their answer, about as many as connections fit; of those
	// that read the whole journal fewer.
	maxWaiting     = 128
	maxLongWaiting = 4
	// maxUnread and maxUnreadBytes bound what has arrived of one kind and was not looked at yet. What is beyond is
	// dropped, and who asked waits in vain.
	maxUnread      = 8192
	maxUnreadBytes = 32 << 20
	// maxLines bounds the decisions of a pod's report.
	maxLines = 200
	// defaultLines is how many there are if the question does not say.
	defaultLines = 20
	// maxUIDs bounds the UIDs that a filter on a pod's name goes by.
	maxUIDs = 256

	// askTimeout bounds the work on one answer; a client waits a little longer.
	askTimeout = 10 * time.Second
	// actorTimeout bounds the wait for one actor's turn, actorsTimeout that for all of them in one
	// answer. Each gets leastWait even then, which is plenty for one that does not hang.
	actorTimeout  = time.Second
	actorsTimeout = 4 * time.Second
	leastWait     = 5 * time.Millisecond
	// longTimeout bounds a read of the whole journal.
	longTimeout = time.Hour
)

// Service is the name that the services are found under.
const Service = "journalet"

// What can be asked. The subject is journalet.<node>.<name>.
const (
	PodsList      = "pods.list"
	PodsGet       = "pods.get"
	RecordsRead   = "records.read"
	RecordsGet    = "records.get"
	JournalVerify = "journal.verify"
	JournalSize   = "journal.size"
	NodeInfo      = "node.info"
)

// Subject is where a node answers a question.
func Subject(node, question string) string { return prefix(node) + "." + question }

func prefix(node string) string { return Service + "." + messages.Token(node) }

// ListRequest asks for pods, by namespace and name. The answer is a v1.PodList; its metadata.continue
// is set when there are more than fit one answer.
type ListRequest struct {
	Namespace string `json:"namespace,omitempty"`
	Continue  string `json:"continue,omitempty"`
}

// PodRequest asks for one pod by its name, namespace/name or UID.
type PodRequest struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace,omitempty"`
	// Lines is how many decisions are wanted, at most 200; 0 means 20, a negative number none.
	Lines int `json:"lines,omitempty"`
}

// Quarantine tells why an actor is out of service.
type Quarantine struct {
	Cause   uint64 `json:"cause"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Line is one event as told to people, with what it follows from.
type Line struct {
	bus.Flat
	Text string `json:"text"`
	// CauseText tells of the record Cause; empty for a fact.
	CauseText string `json:"causeText,omitempty"`
}

// PodEvent is one event of a pod in the manner of the kubelet's.
type PodEvent struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Type    string    `json:"type"` // Normal or Warning
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// PodWait is one thing that a pod waits for.
type PodWait struct {
	What  string    `json:"what"`
	Since time.Time `json:"since"`
	// Cause is the record that had a call asked for; 0 where no call is waited for.
	Cause uint64 `json:"cause,omitempty"`
}

// PodReport is all there is to say about one pod.
type PodReport struct {
	Pod        *corev1.Pod `json:"pod"`
	Source     string      `json:"source,omitempty"`
	Digest     string      `json:"digest,omitempty"`
	Stage      string      `json:"stage,omitempty"`
	Orphan     bool        `json:"orphan,omitempty"`
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// PreemptedFor is the pod for which it ended, or ends; it may be gone.
	PreemptedFor *PodName `json:"preemptedFor,omitempty"`
	// Waits is what a pod that is not admitted yet, or ends, waits for, the oldest first.
	Waits []PodWait `json:"waits,omitempty"`
	// Decisions are the newest ones, oldest first; Events follow from the same records.
	Decisions []Line     `json:"decisions"`
	Events    []PodEvent `json:"events"`
	// FirstSeq and LastSeq are the oldest and newest record looked at; 0 if there was none.
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
}

// PodName names another pod.
type PodName struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid"`
}

// String returns namespace/name (UID uid).
func (p PodName) String() string {
	return p.Namespace + "/" + p.Name + " (UID " + p.UID + ")"
}

// ReadRequest asks for a page of events.
type ReadRequest struct {
	// From is the record to begin with; 0 means the oldest, or the first one at or after Since.
	From  uint64    `json:"from,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Limit is how many records are wanted, at most and by default 500.
	Limit int `json:"limit,omitempty"`
	Filter
}

// Page is an answer to ReadRequest.
type Page struct {
	Events []bus.Flat `json:"events"`
	// Next is the record to go on from. All records before it have been looked at.
	Next uint64 `json:"next"`
	// First and Last are the records that the journal holds now. The page was the last one if
	// Next is above Last.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// UIDs are what is known of the pod that the filter names; hand them in with the next request.
	UIDs []string `json:"uids,omitempty"`
}

// GetRequest asks for one record.
type GetRequest struct {
	Seq uint64 `json:"seq"`
}

// RecordReport is one record: its events, and what they follow from.
type RecordReport struct {
	Seq    uint64 `json:"seq"`
	Hash   string `json:"hash"` // the previous record's, in hex
	Events []Line `json:"events"`
}

// VerifyAnswer is one of several answers to journal.verify: progress, and at last the report.
type VerifyAnswer struct {
	Done   uint64            `json:"done"`
	Total  uint64            `json:"total"`
	Report *bus.VerifyReport `json:"report,omitempty"`
}

// Info is what an agent tells of itself.
type Info struct {
	Node         string         `json:"node"`
	Version      string         `json:"version"`
	Started      time.Time      `json:"started"`
	Epoch        uint64         `json:"epoch"`
	Runtime      string         `json:"runtime,omitempty"`
	HostIPs      []string       `json:"hostIPs,omitempty"`
	Simulated    bool           `json:"simulated,omitempty"`
	Actors       map[string]int `json:"actors"` // by kind
	Quarantined  []string       `json:"quarantined,omitempty"`
	JournalFirst uint64         `json:"journalFirst"`
	JournalLast  uint64         `json:"journalLast"`
	Time         time.Time      `json:"time"`
}

// Codes of an Error, as HTTP has them.
const (
	CodeBadRequest  = 400
	CodeNotFound    = 404
	CodeInternal    = 500
	CodeUnavailable = 503
)

// Error is an answer that is none.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// IsNotFound tells whether err says that what was asked for does not exist.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeNotFound
}

func badRequest(format string, args ...any) error {
	return &Error{CodeBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &Error{CodeNotFound, fmt.Sprintf(format, args...)}
}

func parseCode(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return CodeInternal
}

// rawList is a v1.PodList whose items are encoded already, so that its size is known.
type rawList struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   rawListMeta       `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
}

type rawListMeta struct {
	Continue           string `json:"continue,omitempty"`
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}
