package local

import (
	"net"
	"os"
	"sync"

	"github.com/journalet/journalet/runtime/api/door"
)

const (
	// maxConnections bounds the open connections: sessions, requests, and those kept for the next request.
	maxConnections = 1024
	// maxPerUser bounds the connections of one user other than the agent's own.
	maxPerUser = 256
	// maxOthers bounds the connections of all other users together: the agent's own user always finds a place.
	maxOthers = 768
)

// users counts the open connections.
type users struct {
	conns door.Conns

	mu          sync.Mutex
	byID        map[uint32]int
	all, others int
}

// conn is one client's connection.
type conn struct {
	*door.Conn
	peer Peer
}

// admit returns the connection with its peer, nil beyond the limits.
func (u *users) admit(raw net.Conn) *conn {
	peer, err := Identify(raw)
	if err != nil {
		return nil
	}
	other := int(peer.UID) != os.Geteuid() && peer.UID != 0
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all >= maxConnections || other && (u.others >= maxOthers || u.byID[peer.UID] >= maxPerUser) {
		return nil
	}
	u.count(peer.UID, other, 1)
	return &conn{peer: peer, Conn: u.conns.Add(raw, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.count(peer.UID, other, -1)
	})}
}

// count adds to the numbers; u.mu is held.
func (u *users) count(uid uint32, other bool, n int) {
	u.all += n
	if u.byID[uid] += n; u.byID[uid] == 0 {
		delete(u.byID, uid)
	}
	if other {
		u.others += n
	}
}
