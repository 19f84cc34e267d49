package kubelet

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/spdystream/spdy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// frameHeader is the size of the header of a SPDY frame.
	frameHeader = 8
	// maxControlBytes bounds a control frame. Those that create streams have some 100 bytes.
	maxControlBytes = 16 << 10
	// maxStatusBytes bounds the status of a session.
	maxStatusBytes = 16 << 10
	// maxResponseBytes bounds the response to an upgrade.
	maxResponseBytes = 64 << 10
)

// outcome reads the exit code of a command from the SPDY connection that passes through. From version 4 on the runtime
// writes a status to one of the streams. What is no SPDY ends the reading, and not the session.
type outcome struct {
	mu       sync.Mutex
	client   frames // towards the runtime: here streams are created
	runtime  frames // towards the client, behind the response to the upgrade
	response []byte // the end of that response so far; nil: it is over
	read     int    // bytes of the response
	control  bytes.Buffer
	framer   *spdy.Framer
	stream   uint32 // of the status; 0: none yet
	status   []byte
	off      bool
}

// observe returns what reads the exit code of an exec by SPDY, nil for any other session.
func (x *session) observe(r *http.Request) *outcome {
	if x.start.GetCommand() == "" || !strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), "SPDY/3.1") {
		return nil
	}
	o := &outcome{response: []byte{}}
	framer, err := spdy.NewFramer(bytes.NewBuffer(nil), &o.control)
	if err != nil {
		return nil
	}
	o.framer = framer
	o.client.control, o.client.data = o.created, func(uint32, []byte) {}
	o.runtime.control, o.runtime.data = func([]byte) bool { return true }, o.written
	return o
}

// sent passes in what the client has sent.
func (o *outcome) sent(p []byte) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.off = o.off || !o.client.take(p)
}

// received passes in what the client receives.
func (o *outcome) received(p []byte) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.off {
		return
	}
	if o.response != nil {
		p = o.afterResponse(p)
	}
	o.off = o.off || !o.runtime.take(p)
}

// afterResponse returns what is behind the response to the upgrade.
func (o *outcome) afterResponse(p []byte) []byte {
	const end = "\r\n\r\n"
	all := append(o.response, p...)
	if i := bytes.Index(all, []byte(end)); i >= 0 {
		o.response = nil
		return all[i+len(end):]
	}
	if o.read += len(p); o.read > maxResponseBytes {
		o.off = true
	}
	o.response = bytes.Clone(all[max(0, len(all)-len(end)+1):])
	return nil
}

// created reads a control frame of the client. All of them are read: their headers are compressed as one.
func (o *outcome) created(frame []byte) bool {
	o.control.Reset()
	o.control.Write(frame)
	f, err := o.framer.ReadFrame()
	if err != nil {
		return false
	}
	if s, ok := f.(*spdy.SynStreamFrame); ok && s.Headers.Get(corev1.StreamType) == corev1.StreamTypeError {
		o.stream = uint32(s.StreamId)
	}
	return true
}

func (o *outcome) written(stream uint32, p []byte) {
	if stream == o.stream && stream != 0 && len(o.status)+len(p) <= maxStatusBytes {
		o.status = append(o.status, p...)
	}
}

// end records what was read in the session.
func (o *outcome) end(x *session) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var s metav1.Status
	if len(o.status) == 0 || bounded.JSON(o.status, maxStatusBytes, &s) != nil {
		return
	}
	switch {
	case s.Status == metav1.StatusSuccess:
		x.exited(0)
	case s.Reason == protocol.NonZeroExitCodeReason && s.Details != nil:
		for _, c := range s.Details.Causes {
			code, err := strconv.ParseInt(c.Message, 10, 32)
			if c.Type == protocol.ExitCodeCauseType && err == nil {
				x.exited(int32(code))
			}
		}
	default:
		x.fail(failedRefused)
	}
}

// frames cuts one direction of a SPDY connection into frames, whatever pieces it arrives in.
type frames struct {
	header []byte
	frame  []byte // of a control frame so far, with its header
	left   int    // bytes of the current frame that are still to come
	stream uint32 // of the current data frame
	is     kind
	// control takes a control frame, and returns false if it cannot be read; data takes a piece of a stream.
	control func(frame []byte) bool
	data    func(stream uint32, p []byte)
}

type kind int

const (
	between kind = iota // no frame
	isData
	isControl
)

// take reads the next bytes. It returns false if they are no SPDY.
func (f *frames) take(p []byte) bool {
	for len(p) > 0 {
		if f.is == between {
			n := min(frameHeader-len(f.header), len(p))
			f.header, p = append(f.header, p[:n]...), p[n:]
			if len(f.header) == frameHeader && !f.begin() {
				return false
			}
			continue
		}
		n := min(f.left, len(p))
		if f.is == isData {
			f.data(f.stream, p[:n])
		} else {
			f.frame = append(f.frame, p[:n]...)
		}
		p, f.left = p[n:], f.left-n
		if f.left == 0 && !f.finish() {
			return false
		}
	}
	return true
}

// begin reads the header of a frame.
func (f *frames) begin() bool {
	first := binary.BigEndian.Uint32(f.header)
	f.left = int(binary.BigEndian.Uint32(f.header[4:]) & 0xffffff)
	if f.is = isData; first&(1<<31) != 0 {
		f.is, f.frame = isControl, append(f.frame[:0], f.header...)
		if f.left > maxControlBytes {
			return false
		}
	}
	f.stream, f.header = first&^(1<<31), f.header[:0]
	return f.left > 0 || f.finish()
}

func (f *frames) finish() bool {
	was := f.is
	f.is = between
	return was != isControl || f.control(f.frame)
}
