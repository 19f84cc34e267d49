package bus

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/journalet/journalet/runtime/bounded"
)

// Limits of the doors. Each has a budget of its own, so that peers of the port never take the command line's place.
const (
	maxSocketConns = 64
	maxPortConns   = 64
	// maxStrangers bounds the port's peers that have not signed in. Beyond it the oldest of them is disconnected: a
	// client signs in within milliseconds, and succeeds however many peers hold connections and send nothing.
	maxStrangers = 16
	// signInTimeout is how long a peer may take to sign in, with the handshake of TLS.
	signInTimeout = 2 * time.Second
	// maxInfoLine is longer than the server's first line ever is.
	maxInfoLine = 32 << 10
	// acceptBackOffMin and acceptBackOffMax bound the pause after an error of a listener, which is most often that the
	// process or the machine has no file descriptor left.
	acceptBackOffMin = 10 * time.Millisecond
	acceptBackOffMax = time.Second
)

// door leads the clients of one listener to the server. It copies bytes between them and the server, which requires
// their key as on any other connection.
type door struct {
	l            net.Listener
	srv          *server.Server
	tls          *tls.Config // nil: not encrypted
	log          *slog.Logger
	slots        chan struct{}
	maxStrangers int
	onConnect    func() // called for each connection

	mu        sync.Mutex
	conns     map[net.Conn]struct{}
	strangers []net.Conn          // the conns that have not signed in, the oldest first
	byID      map[uint64]net.Conn // the server's side of each connection, by the server's client id
	closed    chan struct{}
	wg        sync.WaitGroup
}

func newDoor(l net.Listener, srv *server.Server, most, strangers int, config *tls.Config, onConnect func(),
	log *slog.Logger) *door {
	d := &door{
		l: l, srv: srv, tls: config, log: log, onConnect: onConnect,
		slots: make(chan struct{}, most), maxStrangers: strangers,
		conns: make(map[net.Conn]struct{}), byID: make(map[uint64]net.Conn), closed: make(chan struct{}),
	}
	d.wg.Add(1)
	go d.accept()
	return d
}

func (d *door) accept() {
	defer d.wg.Done()
	pause := time.Duration(0)
	for {
		d.slots <- struct{}{}
		c, err := d.l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			<-d.slots
			if pause == 0 {
				d.log.Warn("the bus cannot accept connections; retrying until it can", "address", d.l.Addr(), "err", err)
			}
			pause = min(max(2*pause, acceptBackOffMin), acceptBackOffMax)
			select {
			case <-d.closed:
				return
			case <-time.After(pause):
			}
			continue
		case pause > 0:
			d.log.Info("the bus accepts connections again", "address", d.l.Addr())
			pause = 0
		}
		in, err := d.srv.InProcessConn()
		if err != nil || !d.add(c, in) {
			c.Close()
			if in != nil {
				in.Close()
			}
			<-d.slots
			continue
		}
		d.onConnect()
		d.wg.Add(1)
		go d.serve(c, in)
	}
}

// add adds a client's connection and the server's side of it. It disconnects the oldest stranger if there are too many,
// and returns false if the door is closed.
func (d *door) add(c, in net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.closed:
		return false
	default:
	}
	d.conns[c], d.conns[in] = struct{}{}, struct{}{}
	if len(d.strangers) == d.maxStrangers {
		d.strangers[0].Close()
		d.strangers = slices.Delete(d.strangers, 0, 1)
	}
	d.strangers = append(d.strangers, c)
	return true
}

// signedIn removes a connection from the strangers.
func (d *door) signedIn(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers = slices.DeleteFunc(d.strangers, func(s net.Conn) bool { return s == c })
}

// serve copies bytes both ways until one side ends.
func (d *door) serve(c, in net.Conn) {
	defer d.wg.Done()
	id := uint64(0)
	from := bufio.NewReaderSize(in, maxInfoLine)
	if line, err := from.ReadSlice('\n'); err == nil {
		id = d.register(line, in)
		if to, err := d.welcome(c, line); err == nil {
			done, ended := make(chan struct{}, 2), make(chan struct{})
			go func() {
				_, _ = io.Copy(in, newThrottle(to, func() bool { return d.mayQuery(id) }, ended))
				done <- struct{}{}
			}()
			go func() {
				d.reply(c, to, from)
				close(ended)
				done <- struct{}{}
			}()
			<-done
			c.Close()
			in.Close()
			<-done
		}
	}
	c.Close()
	in.Close()
	d.signedIn(c)
	d.mu.Lock()
	delete(d.conns, c)
	delete(d.conns, in)
	delete(d.byID, id)
	d.mu.Unlock()
	d.awaitGone(id)
	<-d.slots
}

// awaitGone waits until the server has noticed that a client has gone, which may take a moment: until then it counts
// among the server's connections, and peers that come and go at once would take the place of others.
func (d *door) awaitGone(id uint64) {
	for pause := time.Millisecond; pause < signInTimeout && d.srv.GetClient(id) != nil; pause *= 2 {
		select {
		case <-d.closed:
			return
		case <-time.After(pause):
		}
	}
}

// mayQuery reports whether a client has signed in with a key for queries.
func (d *door) mayQuery(id uint64) bool {
	c := d.srv.GetClient(id)
	return c != nil && c.Account() != nil && c.Account().GetName() == queryAccount
}

// welcome sends the server's first line and returns the connection to continue on. As NATS has it, a server that
// requires TLS announces that in a first line that is not encrypted.
func (d *door) welcome(c net.Conn, line []byte) (net.Conn, error) {
	if d.tls == nil {
		_, err := c.Write(line)
		return c, err
	}
	var info map[string]json.RawMessage
	if err := bounded.JSON(bytes.TrimPrefix(line, []byte("INFO ")), maxInfoLine, &info); err != nil {
		return nil, err
	}
	info["tls_required"] = json.RawMessage("true")
	b, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "INFO %s\r\n", b); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), signInTimeout)
	defer cancel()
	secure := tls.Server(c, d.tls)
	return secure, secure.HandshakeContext(ctx)
}

// reply copies what the server sends. To a peer that has not signed in the server sends nothing but errors and pings.
func (d *door) reply(c, to net.Conn, from *bufio.Reader) {
	for stranger := true; stranger; {
		line, err := from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		stranger = bytes.HasPrefix(line, []byte("-ERR")) || bytes.HasPrefix(line, []byte("PING"))
		if _, err := to.Write(line); err != nil {
			return
		}
	}
	d.signedIn(c)
	_, _ = io.Copy(to, from)
}

// register reads the client id of a connection from the server's first line.
func (d *door) register(line []byte, in net.Conn) uint64 {
	var info struct {
		ID uint64 `json:"client_id"`
	}
	if bounded.JSON(bytes.TrimPrefix(line, []byte("INFO ")), maxInfoLine, &info) != nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byID[info.ID] = in
	return info.ID
}

// disconnect closes a connection at once, with all bytes pending for it: the server itself would wait for its write
// to end. It does nothing for a client of another door.
func (d *door) disconnect(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in := d.byID[id]; in != nil {
		in.Close()
	}
}

func (d *door) close() {
	d.l.Close()
	d.mu.Lock()
	close(d.closed)
	for c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	// An accept that waits for a slot gets one from a connection that ends now.
	d.wg.Wait()
}
