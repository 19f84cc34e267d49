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
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

// Limits of a request and its response.
const (
	// MaxRecords bounds the records of one page.
	MaxRecords = 500
	// MaxPageEvents and maxPageBytes bound a page by what its records hold; a page ends after the
	// record that reaches either.
	MaxPageEvents = 2_000
	maxPageBytes  = 4 << 20
	// maxScan bounds how many records one page reads to find matches.
	maxScan = 20_000
	// maxListBytes bounds one page of a pod list; a single pod may be larger, up to maxResponse.
	maxListBytes = 4 << 20
	// maxResponse stays below the 16 MiB that one message on the bus may have.
	maxResponse = 15 << 20
	// maxRequest bounds a request, in bytes.
	maxRequest = 64 << 10
	// maxQueued bounds the requests of one kind that wait, to about the number of connections; maxQueuedLong bounds the
	// requests that read the whole journal.
	maxQueued     = 128
	maxQueuedLong = 4
	// maxPending and maxPendingBytes bound what NATS buffers for one kind of request before it is queued. Requests
	// beyond are dropped, and their clients time out.
	maxPending      = 8192
	maxPendingBytes = 32 << 20
	// maxLines bounds the decisions of a pod's report.
	maxLines = 200
	// defaultLines is their number if the request names none.
	defaultLines = 20

	// requestTimeout bounds the work on one response; a client waits a little longer.
	requestTimeout = 10 * time.Second
	// actorTimeout bounds the wait for one actor, actorsTimeout the wait for all actors of one response. Beyond
	// actorsTimeout each actor still gets minWait, which is plenty for an actor that does not hang.
	actorTimeout  = time.Second
	actorsTimeout = 4 * time.Second
	minWait       = 5 * time.Millisecond
	// liftTimeout bounds the lift of a quarantine: the actor is folded from the journal.
	liftTimeout = 2 * time.Minute
	// longTimeout bounds a read of the whole journal.
	longTimeout = time.Hour
)

// Service is the name of the NATS micro service.
const Service = "journalet"

// The requests. The subject is journalet.<node>.<name>.
const (
	PodsList      = "pods.list"
	PodsGet       = "pods.get"
	PodsProblems  = "pods.problems"
	RecordsRead   = "records.read"
	RecordsGet    = "records.get"
	JournalVerify = "journal.verify"
	JournalSize   = "journal.size"
	JournalWhy    = "journal.why"
	NodeInfo      = "node.info"
	ImagesList    = "images.list"
	// The following need the key for requests that change something.
	QuarantineLift = "control.quarantine.lift"
	JournalPrune   = "control.journal.prune"
	ImagesPull     = "control.images.pull"
	ImagesRemove   = "control.images.remove"
	// NodeDrain reports the drain of the node; the other three are operators' requests and need that key, too.
	NodeDrain    = "node.drain"
	PodRestart   = "control.pod.restart"
	DrainBegin   = "control.node.drain"
	NodeUncordon = "control.node.uncordon"
)

// Subject returns the subject of a request to a node.
func Subject(node, request string) string { return prefix(node) + "." + request }

func prefix(node string) string { return Service + "." + messages.Token(node) }

// ListRequest requests pods, sorted by namespace and name. The response is a v1.PodList; its metadata.continue is set
// if there are more than fit one response.
type ListRequest struct {
	Namespace string `json:"namespace,omitempty"`
	Continue  string `json:"continue,omitempty"`
}

// PodRequest requests one pod by its name, namespace/name or UID.
type PodRequest struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace,omitempty"`
	// Lines is the number of decisions, at most 200; 0 means 20, a negative number none.
	Lines int `json:"lines,omitempty"`
}

// Quarantine is the reason why an actor is quarantined.
type Quarantine struct {
	Cause   uint64 `json:"cause"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// PodWait is one thing that a pod waits for.
type PodWait struct {
	What  string    `json:"what"`
	Since time.Time `json:"since"`
	// Cause is the record that led to the request of the call that the pod waits for; 0 if it waits for no call.
	Cause uint64 `json:"cause,omitempty"`
}

// PodReport is everything that is known of one pod.
type PodReport struct {
	Pod        *corev1.Pod `json:"pod"`
	Source     string      `json:"source,omitempty"`
	Digest     string      `json:"digest,omitempty"`
	Stage      string      `json:"stage,omitempty"`
	Orphan     bool        `json:"orphan,omitempty"`
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// PreemptedFor is the pod that preempted this one; it may no longer exist.
	PreemptedFor *PodName `json:"preemptedFor,omitempty"`
	// Waits is what a pod that is not admitted yet, or terminates, waits for, the oldest first.
	Waits []PodWait `json:"waits,omitempty"`
	// Decisions are the newest ones, oldest first; Events are derived from the same records.
	Decisions []describe.Line     `json:"decisions"`
	Events    []describe.PodEvent `json:"events"`
	// FirstSeq and LastSeq are the oldest and newest record read for it; 0 if there was none.
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

// ReadRequest requests a page of events.
type ReadRequest struct {
	// From is the first record, Since the time of the first one, After the last event that the client has. Without any
	// of them the page begins with the oldest record.
	From  uint64             `json:"from,omitempty"`
	Since time.Time          `json:"since,omitzero"`
	After *messages.Position `json:"after,omitempty"`
	// Limit is the number of records, at most and by default 500.
	Limit int `json:"limit,omitempty"`
	history.Filter
}

// Page is the response to ReadRequest.
type Page struct {
	Events []messages.Flat `json:"events"`
	// Next is the record to continue from. All records before it have been read.
	Next uint64 `json:"next"`
	// First and Last are the oldest and newest record of the journal. The page was the last one if Next is above Last.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Filter is the request's, with what it has learned. Pass it with the next request.
	Filter history.Filter `json:"filter,omitzero"`
}

// GetRequest requests one record.
type GetRequest struct {
	Seq uint64 `json:"seq"`
}

// RecordReport is one record: its events and their cause.
type RecordReport struct {
	Seq    uint64          `json:"seq"`
	Hash   string          `json:"hash"` // the previous record's, in hex
	Events []describe.Line `json:"events"`
}

// VerifyRequest requests a check of the whole journal. Without a Check it joins the one under way or starts one. The
// client repeats the request, with the Check of the response, until that has the report.
type VerifyRequest struct {
	Check uint64 `json:"check,omitempty"`
}

// VerifyResponse is the progress of a check, and at last its report.
type VerifyResponse struct {
	Check  uint64            `json:"check"`
	Done   uint64            `json:"done"`
	Total  uint64            `json:"total"`
	Report *bus.VerifyReport `json:"report,omitempty"`
}

// LiftRequest requests that a quarantined actor is folded from the journal again and continues.
type LiftRequest struct {
	// Actor is the actor as kind/id, or a pod by its name, namespace/name or UID.
	Actor string `json:"actor"`
	// Skip leaves out the record that the actor failed on.
	Skip bool `json:"skip,omitempty"`
}

// LiftResponse names the actor whose quarantine was lifted.
type LiftResponse struct {
	Actor string `json:"actor"`
}

// PruneRequest requests that the journal's oldest records are cut, up to one bound.
type PruneRequest struct {
	// Before is the first record that is to stay.
	Before uint64 `json:"before,omitempty"`
	// KeepBytes is how many bytes on disk may stay.
	KeepBytes uint64 `json:"keepBytes,omitempty"`
	// DryRun reports what would be cut.
	DryRun bool `json:"dryRun,omitempty"`
}

// Info describes an agent.
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

// Codes of an Error, with their meanings in HTTP.
const (
	CodeBadRequest  = 400
	CodeNotFound    = 404
	CodeConflict    = 409
	CodeInternal    = 500
	CodeUnavailable = 503
)

// Error is an error response.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// IsNotFound reports whether err is a response that what was requested does not exist.
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

// rawList is a v1.PodList with encoded items: their size is known.
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
