package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// dialTimeout bounds one attempt to connect when the context sets no earlier end.
const dialTimeout = 5 * time.Second

// Dial connects a command on this machine to the agent whose bus is in dir, to send queries. Its errors name the
// remedy: no agent runs there, or the caller has no permission.
func Dial(ctx context.Context, dir string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(ctx, dir, QueryKeyFile, opts)
}

// DialControl connects like Dial, to send also requests that change something.
func DialControl(ctx context.Context, dir string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(ctx, dir, ControlKeyFile, opts)
}

// Listen connects like Dial, as an observer: it can receive events and do nothing else.
func Listen(ctx context.Context, dir string, opts ...nats.Option) (*nats.Conn, error) {
	return dial(ctx, dir, ObserverKeyFile, opts)
}

func dial(ctx context.Context, dir, file string, opts []nats.Option) (*nats.Conn, error) {
	key, err := readKey(keyPath(dir, file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, noAgent(dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, notAllowed(dir)
	case err != nil:
		return nil, err
	}
	defer key.Wipe()
	nc, err := connect(ctx, "", key, append(opts, nats.InProcessServer(socketDialer(dir))))
	switch {
	case err == nil:
		return nc, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, noAgent(dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, notAllowed(dir)
	}
	return nil, fmt.Errorf("connect to the agent with root directory %s: %w", filepath.Dir(dir), err)
}

// DialURL connects to an agent's port with a copy of a key from the agent's bus/credentials: QueryKeyFile for
// queries, ObserverKeyFile for events. Off this machine the connection is always encrypted, so that nobody on the way
// can ask for less; nats.RootCAs names another authority than the system's.
func DialURL(ctx context.Context, server, nkeyFile string, opts ...nats.Option) (*nats.Conn, error) {
	key, err := readKey(nkeyFile)
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	if !localURL(server) {
		opts = append([]nats.Option{nats.Secure()}, opts...)
	}
	nc, err := connect(ctx, server, key, opts)
	if err != nil {
		return nil, fmt.Errorf("connect to the agent at %s: %w", hideUser(server), err)
	}
	return nc, nil
}

// localURL reports whether all servers of a NATS URL, which may be a list, are on the loopback interface.
func localURL(list string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || !onLoopback(u.Hostname()) {
			return false
		}
	}
	return true
}

// connect signs in with key. The caller wipes the key when it returns, so the connection keeps its own copy of the
// seed for reconnects.
func connect(ctx context.Context, url string, key nkeys.KeyPair, opts []nats.Option) (*nats.Conn, error) {
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	own, err := nkeys.FromSeed(append([]byte(nil), seed...))
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	sign, err := signWith(own)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	timeout := dialTimeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end))
	}
	if err := ctx.Err(); err != nil || timeout <= 0 {
		return nil, errors.Join(context.DeadlineExceeded, err)
	}
	return nats.Connect(url, append([]nats.Option{sign, nats.Name("journalet"), nats.Timeout(timeout)}, opts...)...)
}

func readKey(path string) (nkeys.KeyPair, error) {
	b, err := bounded.ReadFile(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(b)
	if err != nil {
		return nil, fmt.Errorf("%s holds no key: copy it again from the agent's bus/%s", path, credentialsDir)
	}
	return key, nil
}

// socketDialer finds the agent's socket again for each connection: a restarted agent may have it elsewhere.
type socketDialer string

// InProcessConn connects to the socket; nats.go calls it for each connection.
func (d socketDialer) InProcessConn() (net.Conn, error) {
	path := filepath.Join(string(d), socketFile)
	if b, err := bounded.ReadFile(filepath.Join(string(d), socketPathFile), unix.PathMax); err == nil {
		path = strings.TrimSpace(string(b))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.DialTimeout("unix", path, dialTimeout)
}

func noAgent(dir string) error {
	root := filepath.Dir(dir)
	return fmt.Errorf("no agent is running with root directory %s: "+
		"start one with `journalet run --root-dir %s`, or name the right one with --root-dir", root, root)
}

func notAllowed(dir string) error {
	return fmt.Errorf("permission denied on %s: run the command as the agent's user (usually root)", dir)
}

// hideUser removes the user part before an @ in a URL: it may be a password.
func hideUser(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "nats", url
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}
