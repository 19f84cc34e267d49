package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/pod/logs"
)

// LogProblemsTrailer is the trailer of a response with a log: what was left out of it, on one line. Empty: nothing.
const LogProblemsTrailer = "Journalet-Log-Problems"

// Logs reads logs of containers.
type Logs interface {
	// Read writes the log of an instance, by the runtime's id of it, to w. An empty write shows that the log was
	// opened; an error before that means that there is no log. It returns at the log's end, with q.Follow when the
	// container or ctx ends.
	Read(ctx context.Context, containerID string, q logs.Query, w io.Writer) (logs.Report, error)
}

func (s *Server) logRoutes() {
	h := absent("containerLogs")
	if s.Logs != nil {
		h = http.HandlerFunc(s.containerLogs)
	}
	s.handle("GET", "/containerLogs/{namespace}/{pod}/{container}", h)
}

// containerLogs writes the log of a container.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	o, err := logOptions(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, `{"message": "Unable to decode query."}`)
		return
	}
	if !validLogOptions(o) {
		fail(w, http.StatusUnprocessableEntity, `{"message": "Invalid request."}`)
		return
	}
	name, container := r.PathValue("pod"), r.PathValue("container")
	p, err := s.Pods.Pod(r.Context(), r.PathValue("namespace"), name)
	switch {
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error())
		return
	case p == nil:
		fail(w, http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name))
		return
	case containers.Find(p, container) == nil:
		fail(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, name))
		return
	}
	id, err := instanceWithLog(p, container, o.Previous)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	x := s.begin(w, r, p, what{kind: journaletv1.SessionKind_SESSION_KIND_LOGS, container: container})
	if x == nil {
		return
	}
	defer x.end()
	out := newLogWriter(w, s.limits.Idle)
	report, err := s.Logs.Read(x.ctx, id, logQuery(o, time.Now()), out)
	switch {
	case err != nil && !out.begun:
		x.fail(failedNoLog)
		fail(w, http.StatusBadRequest, err.Error())
	case x.ctx.Err() != nil, out.failed:
		x.fail(failedClient)
	default:
		if err = errors.Join(err, report.Err()); err != nil {
			w.Header().Set(LogProblemsTrailer, oneLine(err.Error()))
			s.Log.Warn("parts of a log were left out", "pod", p.UID, "container", container, "error", err)
		}
	}
}

// failedNoLog is why a session with a log fails that cannot be opened.
const failedNoLog = "the log cannot be opened"

// logOptions decodes the query as the API does; the older parameter tail is taken too.
func logOptions(q url.Values) (*corev1.PodLogOptions, error) {
	switch tail := q.Get("tail"); tail {
	case "":
	case "all":
		q.Del("tailLines")
	default:
		q.Set("tailLines", tail)
	}
	o := &corev1.PodLogOptions{}
	var errs []error
	for name, to := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps} {
		if v, ok := q[name]; ok {
			errs = append(errs, runtime.Convert_Slice_string_To_bool(&v, to, nil))
		}
	}
	for name, to := range map[string]**int64{
		"sinceSeconds": &o.SinceSeconds, "tailLines": &o.TailLines, "limitBytes": &o.LimitBytes,
	} {
		if v, ok := q[name]; ok {
			errs = append(errs, runtime.Convert_Slice_string_To_Pointer_int64(&v, to, nil))
		}
	}
	if v, ok := q["sinceTime"]; ok {
		errs = append(errs, metav1.Convert_Slice_string_To_Pointer_v1_Time(&v, &o.SinceTime, nil))
	}
	if v := q.Get("stream"); v != "" {
		o.Stream = &v
	}
	return o, errors.Join(errs...)
}

// validLogOptions reports whether the options are within the API's bounds.
func validLogOptions(o *corev1.PodLogOptions) bool {
	stream := corev1.LogStreamAll
	if o.Stream != nil {
		stream = *o.Stream
	}
	switch {
	case o.TailLines != nil && *o.TailLines < 0,
		o.LimitBytes != nil && *o.LimitBytes < 1,
		o.SinceSeconds != nil && (*o.SinceSeconds < 1 || o.SinceTime != nil),
		stream != corev1.LogStreamAll && stream != corev1.LogStreamStdout && stream != corev1.LogStreamStderr,
		stream != corev1.LogStreamAll && o.TailLines != nil:
		return false
	}
	return true
}

// logQuery returns what is read for the options.
func logQuery(o *corev1.PodLogOptions, now time.Time) logs.Query {
	q := logs.Query{Follow: o.Follow, Timestamps: o.Timestamps, Tail: o.TailLines, Limit: o.LimitBytes}
	q.Stdout = o.Stream == nil || *o.Stream != corev1.LogStreamStderr
	q.Stderr = o.Stream == nil || *o.Stream != corev1.LogStreamStdout
	switch {
	case o.SinceTime != nil:
		q.Since = o.SinceTime.Time
	case o.SinceSeconds != nil:
		q.Since = now.Add(-time.Duration(min(*o.SinceSeconds, maxSinceSeconds)) * time.Second)
	}
	return q
}

// maxSinceSeconds is a hundred years: no log is older, and a duration holds no more than three times that.
const maxSinceSeconds = 100 * 365 * 24 * 3600

// instanceWithLog returns the runtime's id of the instance whose log is read: the running instance, else the instance
// that ended last; with previous the instance before. Errors are the kubelet's.
func instanceWithLog(p *corev1.Pod, container string, previous bool) (string, error) {
	st := statusOf(p, container)
	if st == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", container, p.Name)
	}
	last := ""
	if t := st.LastTerminationState.Terminated; t != nil {
		last = t.ContainerID
	}
	id, found := "", true
	switch s := st.State; {
	case previous && last == "":
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", container, p.Name)
	case previous:
		id = last
	case s.Running != nil:
		id = st.ContainerID
	case s.Terminated != nil:
		id = cmp.Or(s.Terminated.ContainerID, last)
	case st.LastTerminationState.Terminated != nil:
		id = last
	default:
		found = false
	}
	switch {
	case !found:
		return "", waitingForLog(p, st)
	case id == "":
		return "", fmt.Errorf("container %q in pod %q is terminated", container, p.Name)
	}
	_, id, _ = strings.Cut(id, "://")
	return id, nil
}

// waitingForLog returns the kubelet's error for a container that has not run yet.
func waitingForLog(p *corev1.Pod, st *corev1.ContainerStatus) error {
	w := st.State.Waiting
	if w == nil {
		return fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", st.Name, p.Name)
	}
	why := w.Reason
	switch why {
	case "ErrImagePull":
		why = "image can't be pulled"
	case "ImagePullBackOff":
		why = "trying and failing to pull image"
	}
	return fmt.Errorf("container %q in pod %q is waiting to start: %s", st.Name, p.Name, why)
}

func statusOf(p *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses,
	} {
		for i := range all {
			if all[i].Name == container {
				return &all[i]
			}
		}
	}
	return nil
}

// logWriter sends a log as it is read. A client may stall for idle; then the write fails.
type logWriter struct {
	to     http.ResponseWriter
	on     *http.ResponseController
	idle   time.Duration
	begun  bool
	failed bool
}

func newLogWriter(w http.ResponseWriter, idle time.Duration) *logWriter {
	return &logWriter{to: w, on: http.NewResponseController(w), idle: idle}
}

func (l *logWriter) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.to.Header().Set("Content-Type", "text/plain; charset=utf-8")
		l.to.Header().Set("X-Content-Type-Options", "nosniff")
		l.to.Header().Set("Trailer", LogProblemsTrailer)
		l.to.WriteHeader(http.StatusOK)
	}
	_ = l.on.SetWriteDeadline(time.Now().Add(l.idle)) // not every writer has one
	n, err := l.to.Write(b)
	if err == nil {
		err = l.on.Flush()
	}
	l.failed = l.failed || err != nil
	return n, err
}

// oneLine makes a text fit for a header.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ';'
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}
