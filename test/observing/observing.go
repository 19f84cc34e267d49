package observing

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"
)

// enterTimeout bounds the sign-in of one observer.
const enterTimeout = 10 * time.Second

// Crowd is a number of connected observers that read all they receive.
type Crowd struct {
	conns []net.Conn
	read  sync.WaitGroup
	bytes atomic.Int64
}

// Join connects so many observers to the bus in dir, with so many subscriptions to all events each. It returns once
// the server has processed all of them.
func Join(dir string, connections, subscriptions int) (*Crowd, error) {
	c := &Crowd{}
	for range connections {
		conn, err := enter(dir, subscriptions)
		if err != nil {
			c.Leave()
			return nil, fmt.Errorf("join as an observer: %w", err)
		}
		c.conns = append(c.conns, conn)
		c.read.Go(func() {
			_, _ = io.Copy(countTo{&c.bytes}, conn) // ends with the connection
		})
	}
	return c, nil
}

// Stall connects one observer that subscribes to all events and never reads.
func Stall(dir string) (io.Closer, error) { return enter(dir, 1) }

// Bytes returns how many bytes all of them have received.
func (c *Crowd) Bytes() int64 { return c.bytes.Load() }

// Leave disconnects them.
func (c *Crowd) Leave() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.read.Wait()
}

// countTo counts what is written to it.
type countTo struct{ n *atomic.Int64 }

func (w countTo) Write(b []byte) (int, error) {
	w.n.Add(int64(len(b)))
	return len(b), nil
}

// enter signs in with the observers' key and subscribes.
func enter(dir string, subscriptions int) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", filepath.Join(dir, "bus.sock"), enterTimeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(enterTimeout)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	first, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	hello, err := connectLine(filepath.Join(dir, "credentials", "observer.nk"), first)
	if err != nil {
		return nil, err
	}
	var all strings.Builder
	all.WriteString(hello)
	for i := range subscriptions {
		fmt.Fprintf(&all, "SUB event.> %d\r\n", i+1)
	}
	all.WriteString("PING\r\n")
	if _, err := io.WriteString(conn, all.String()); err != nil {
		return nil, err
	}
	for line := ""; line != "PONG\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	return conn, conn.SetDeadline(time.Time{})
}

// connectLine answers the server's first line with a proof of the key.
func connectLine(keyFile string, info []byte) (string, error) {
	seed, err := os.ReadFile(keyFile)
	if err != nil {
		return "", err
	}
	key, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", err
	}
	var first struct{ Nonce string }
	if err := json.Unmarshal(bytes.TrimPrefix(info, []byte("INFO ")), &first); err != nil {
		return "", err
	}
	sig, err := key.Sign([]byte(first.Nonce))
	if err != nil {
		return "", err
	}
	pub, err := key.PublicKey()
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"nkey": pub, "sig": base64.RawURLEncoding.EncodeToString(sig),
		"verbose": false, "protocol": 1, "headers": true})
	return "CONNECT " + string(b) + "\r\n", err
}
