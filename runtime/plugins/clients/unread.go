package clients

import (
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// maxUnreadBytes bounds the answers that clients have not read yet, of all clients. One more closes the connections of
// the oldest: gRPC keeps an answer until its client has read it, and a list of a full node may have 100 MiB.
const maxUnreadBytes = 32 << 20

// unread are the answers that clients have not read yet.
type unread struct {
	mu    sync.Mutex
	all   []*held // the oldest first
	bytes int
}

// held is one of them. As the pool of its buffer it learns when gRPC needs the bytes no more.
type held struct {
	pool  *unread
	conn  *Conn
	bytes int
}

// Get implements mem.BufferPool.
func (*held) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements mem.BufferPool: the client has the answer, or will not get it.
func (h *held) Put(*[]byte) { h.pool.remove(func(other *held) bool { return other == h }) }

// take adds an answer to a connection. While there are too many bytes, it closes the connection with the oldest answer.
// It keeps the newest answer, however large that is.
func (u *unread) take(c *Conn, bytes int) *held {
	h := &held{u, c, bytes}
	u.mu.Lock()
	u.all = append(u.all, h)
	u.bytes += bytes
	var closing []*Conn
	for left, i := u.bytes, 0; left > maxUnreadBytes && u.all[i] != h; i++ {
		left -= u.all[i].bytes
		closing = append(closing, u.all[i].conn)
	}
	u.mu.Unlock()
	for _, c := range closing {
		c.Close()
	}
	return h
}

// forget removes the answers to a connection that is closed.
func (u *unread) forget(c *Conn) { u.remove(func(h *held) bool { return h.conn == c }) }

func (u *unread) remove(which func(*held) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(h *held) bool {
		if !which(h) {
			return false
		}
		u.bytes -= h.bytes
		return true
	})
}

// answer is a message to the client of a connection.
type answer struct {
	proto.Message
	conn *Conn
}

// sending is a stream whose messages are answers.
type sending struct {
	grpc.ServerStream
	conn *Conn
}

// SendMsg implements grpc.ServerStream.
func (s sending) SendMsg(m any) error {
	return s.ServerStream.SendMsg(&answer{m.(proto.Message), s.conn}) //nolint:forcetypeassert // of the API
}

// codec is the codec of protobuf, and counts answers until they are read.
type codec struct {
	encoding.CodecV2
	unread *unread
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, counted := v.(*answer)
	if !counted {
		return c.CodecV2.Marshal(v)
	}
	b, err := proto.Marshal(a.Message)
	if err != nil {
		return nil, err
	}
	if mem.IsBelowBufferPoolingThreshold(cap(b)) { // gRPC does not say when it needs them no more
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return mem.BufferSlice{mem.NewBuffer(&b, c.unread.take(a.conn, len(b)))}, nil
}
