package pleg

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/logs"
)

// Bounds of a termination message: of the file, of all containers of a pod together, the same for each, and of the end
// of the log that may replace it. All as the kubelet's.
const (
	maxMessageBytes    = 4096
	maxPodMessageBytes = 12 << 10
	maxLogMessageBytes = 2048
	maxLogMessageLines = 80
	// maxRecordBytes is the longest record of one line; longer lines have several. containerd and CRI-O: 16 KiB, 8 KiB.
	maxRecordBytes = 16 << 10
	// maxLogTailBytes bounds how much of the log is read: the record that the first bytes of the message are in, as a
	// whole. Every record begins with a time stamp, a stream and tags, which in short lines are longer than the text.
	maxLogTailBytes = maxLogMessageBytes + maxRecordBytes + 128*maxLogMessageLines
)

// terminationMessage returns the message of an exited container: the runtime's message, then the file at its
// terminationMessagePath, or the end of its log if the policy says so and it failed with an empty file.
func (p *PLEG) terminationMessage(uid string, st *runtimeapi.ContainerStatus) string {
	out := st.GetMessage()
	if out != "" && p.opts.Redact != nil {
		out = p.opts.Redact(uid, out)
	}
	text := p.messageFile(st)
	policy := corev1.TerminationMessagePolicy(st.GetAnnotations()[cri.AnnotationTerminationMessagePolicy])
	if text == "" && policy == corev1.TerminationMessageFallbackToLogsOnError && st.GetExitCode() != 0 {
		text = p.logTail(st)
	}
	if out != "" && text != "" {
		out += ": "
	}
	return plain.Cut(out+text, maxMessageBytes)
}

// maxObservationBytes bounds a pod's observation, which is one record of 1 MiB with what the journal adds: 80
// containers with two instances each, and 100 ephemeral ones, have 700 KiB at most without their messages and groups.
const maxObservationBytes = 768 << 10

// maxGroups bounds the supplemental groups of a container: an image's /etc/group may put its user into 65536, which is
// the kernel's bound, and each observation of the pod repeats them.
const maxGroups = 256

// Fit shortens the termination messages of an observation to their container's share of the pod's bound: no status
// shows more, and each observation of a pod that crashes repeats them all. Of the groups of a container it leaves
// maxGroups. What no record would take it shortens further, the longest first.
func Fit(o *journaletv1.PodObserved) {
	names := map[string]bool{}
	for _, c := range o.GetContainers() {
		names[c.GetName()] = true
	}
	limit := min(maxMessageBytes, maxPodMessageBytes/max(len(names), 1))
	shorten(o, limit, maxGroups)
	for limit /= 2; limit > 0 && proto.Size(o) > maxObservationBytes; limit /= 2 {
		shorten(o, limit, min(limit, maxGroups))
	}
}

// shorten leaves so many bytes of each message, and so many groups of each container.
func shorten(o *journaletv1.PodObserved, bytes, groups int) {
	for i, c := range o.GetContainers() {
		if len(c.GetMessage()) <= bytes && len(c.GetUser().GetSupplementalGroups()) <= groups {
			continue
		}
		c = proto.CloneOf(c) // it may be one of the last observation
		c.Message = plain.Cut(c.GetMessage(), bytes)
		if u := c.GetUser(); len(u.GetSupplementalGroups()) > groups {
			u.SupplementalGroups = u.GetSupplementalGroups()[:groups]
		}
		o.Containers[i] = c
	}
}

// messageFile reads the file mounted at the container's terminationMessagePath. It must be a file of the agent.
func (p *PLEG) messageFile(st *runtimeapi.ContainerStatus) string {
	path := st.GetAnnotations()[cri.AnnotationTerminationMessagePath]
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join("/", path) // as it was mounted
	}
	for _, m := range st.GetMounts() {
		if m.GetContainerPath() != path {
			continue
		}
		text, err := p.readTail(filepath.Join(p.opts.RootDir, own.Pods), m.GetHostPath(), maxMessageBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.log.Warn("a termination message cannot be read", "container", st.GetId(), "error", err)
		}
		return string(text)
	}
	return ""
}

// logTail returns the end of a container's log. Where that was rotated just before, it begins in the rotated file.
func (p *PLEG) logTail(st *runtimeapi.ContainerStatus) string {
	raw, err := p.endOfLog(st.GetLogPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("the end of a log cannot be read", "container", st.GetId(), "error", err)
	}
	return tailOfLog(raw)
}

// maxRotations bounds how often the end of a log is read that is rotated meanwhile.
const maxRotations = 3

// endOfLog reads the end of a log with what its newest rotated file has before it, if that isn't compressed yet.
func (p *PLEG) endOfLog(path string) (raw []byte, err error) {
	for range maxRotations {
		before := p.newestRotated(path)
		raw, err = p.readTail(p.opts.PodLogDir, path, maxLogTailBytes)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist), len(raw) == maxLogTailBytes:
			return raw, err
		case p.newestRotated(path) != before:
			continue // what was read may be rotated now
		case before == "":
			return raw, err
		}
		older, oerr := p.readTail(p.opts.PodLogDir, filepath.Join(filepath.Dir(path), before), maxLogTailBytes)
		if oerr == nil {
			return append(older, raw...), nil
		}
	}
	return raw, err
}

// newestRotated returns the name of the newest file that was rotated from a log; empty for none.
func (p *PLEG) newestRotated(path string) string {
	below, err := filepath.Rel(p.opts.PodLogDir, filepath.Dir(path))
	if err != nil || !filepath.IsLocal(below) {
		return ""
	}
	dir, err := bounded.Hold(p.opts.PodLogDir, below)
	if err != nil {
		return ""
	}
	defer dir.Close()
	name, err := logs.NewestRotated(dir, filepath.Base(path))
	if err != nil {
		return ""
	}
	return name
}

// tailOfLog returns the text of the last lines in CRI's log format: "<time> <stream> <tags> <text>".
func tailOfLog(raw []byte) string {
	lines := bytes.SplitAfter(raw, []byte("\n"))
	lines = lines[max(0, len(lines)-1-maxLogMessageLines):]
	var out []byte
	for _, line := range lines {
		fields := bytes.SplitN(line, []byte(" "), 4)
		if len(fields) < 4 || len(fields[0]) < len("2006-01-02T15:04:05Z") {
			continue // the first line may be incomplete
		}
		text := fields[3]
		if bytes.HasPrefix(fields[2], []byte(runtimeapi.LogTagPartial)) {
			text = bytes.TrimSuffix(text, []byte("\n"))
		}
		out = append(out, text...)
	}
	return string(out[max(0, len(out)-maxLogMessageBytes):])
}

// readTail reads the last n bytes of a file that has to be below dir.
func (p *PLEG) readTail(dir, path string, n int64) ([]byte, error) {
	below, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(below) {
		return nil, errors.New("the file is not below the agent's directory " + dir)
	}
	return p.opts.ReadTail(dir, below, n)
}

// tailOnDisk follows no link out of dir, and does not block on a FIFO.
func tailOnDisk(dir, below string, n int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return bounded.ReadTailIn(root, below, n)
}
