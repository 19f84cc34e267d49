package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"
)

const lockFile = "LOCK"

// Bus is one node's bus, open. Only one process at a time has a folder's bus open.
type Bus struct {
	opts      Options
	lock      *os.File
	srv       *embedded
	conns     []*nats.Conn
	services  *nats.Conn
	opening   Opening
	journal   *Journal
	blocks    *blocks // of the journal
	manifests *Manifests
	snapshots *Snapshots
	observers *Observers
	socket    *socket
	outflow   *outflow
	closed    bool
	seen      bool // how the blocks look is noted when the server has stopped
}

// Open opens the bus in o.Dir, and makes it there if there is none. It recovers the streams, compares
// the journal with its head and begins a new epoch; what it found stands in Opening. A damaged journal
// is no error. Errors are: another agent has the folder open, the journal's format is too new, or the
// folder cannot be used.
func Open(ctx context.Context, o Options) (b *Bus, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, err
	}
	b = &Bus{opts: o}
	defer func() {
		if err != nil {
			b.abandon()
			b = nil
		}
	}()
	if b.lock, err = takeLock(o.Dir); err != nil {
		return b, err
	}
	h, err := readHead(o.Dir)
	headLost := errors.Is(err, errHeadDamaged)
	if err != nil && !headLost {
		return b, err
	}
	acc, err := newAccounts(o.Dir)
	if err != nil {
		return b, err
	}
	kept, err := setAside(o.Dir, h.GetEpoch()+1)
	if err != nil {
		return b, err
	}
	if b.srv, err = startServer(ctx, o, acc); err != nil {
		return b, err
	}
	writer, r, err := b.connect()
	if err != nil {
		return b, err
	}
	found, err := inspect(ctx, r, o.Node, h, headLost, kept, readHoles(o.Dir))
	if err != nil {
		return b, err
	}
	if err := found.settleCut(ctx, r, readCut(o.Dir, o.Log), o.Log); err != nil {
		return b, err
	}
	if found.Damage == nil {
		kept.drop()
	} else {
		found.Damage.Message += kept.where()
	}
	b.opening = found.Opening
	if err := b.begin(writer, r, found); err != nil {
		return b, err
	}
	if err := found.keepHoles(o.Dir); err != nil {
		return b, err
	}
	if err := b.stores(ctx, r); err != nil {
		return b, err
	}
	writeSeen(o.Dir)
	b.observers = &Observers{node: o.Node, nc: b.services, agent: acc.agent, observer: acc.observer}
	if b.outflow, err = watchOutflow(b.srv.srv, b.conns, o.Listen != ""); err != nil {
		return b, fmt.Errorf("bus: connect inside the process: %w", err)
	}
	if b.socket, err = listenSocket(o.Dir, b.srv.srv, b.outflow.arrived, o.Log); err != nil {
		return b, err
	}
	cut := b.socket.cut
	b.outflow.cut.Store(&cut)
	return b, nil
}

func makeFolder(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) //nolint:gosec // a folder: 0700 is the owner's alone
	}
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("bus: the disk that holds %s is mounted read-only, by its mount options or because it failed: look at the kernel's log, mount it writable, or choose another --root-dir: %w", dir, err)
	}
	if err != nil {
		return fmt.Errorf("bus: make its folder and close it to others: %w", err)
	}
	return nil
}

// connect opens three connections, so that a long read or a burst of events for observers does not
// stand before an append.
func (b *Bus) connect() (writer *nats.Conn, r *reader, err error) {
	for _, name := range []string{"writer", "reader", "services"} {
		nc, err := b.srv.connect(name)
		if err != nil {
			return nil, nil, fmt.Errorf("bus: connect inside the process: %w", err)
		}
		b.conns = append(b.conns, nc)
	}
	b.services = b.conns[2]
	js, err := jetstream.New(b.conns[1])
	if err != nil {
		return nil, nil, fmt.Errorf("bus: set up JetStream: %w", err)
	}
	return b.conns[0], &reader{nc: b.conns[1], js: js, blocksDir: streamDir(b.opts.Dir, journalStream)}, nil
}

// begin puts the new epoch on disk and starts the appender.
func (b *Bus) begin(writer *nats.Conn, r *reader, found *finding) error {
	h, err := newHead(b.opts.Dir, found.head())
	if err != nil {
		return err
	}
	l, err := newNATSLink(b.srv, writer, r, b.opts.Sync.Always)
	if err != nil {
		return errors.Join(err, h.f.Close())
	}
	// What an earlier run left in the page cache counts as stored from now on.
	b.blocks = l.blocks
	if err := b.blocks.force(); err != nil {
		return errors.Join(fmt.Errorf("bus: the journal's files are not where they should be: %w", err), h.f.Close())
	}
	a := newAppender(b.opts.Node, found.Epoch, found.Last, found.hash, l, h, b.opts.Log)
	a.reserve = newReserve(b.opts.Dir, b.opts.Log)
	b.journal = &Journal{a: a, reader: r, node: b.opts.Node, blocks: b.blocks, least: MinKept}
	b.journal.cut.Store(found.cut)
	b.journal.first.Store(found.first)
	go a.run()
	return nil
}

// reopen opens the streams again for one beside the journal that met a write error and refuses everything since. While the
// journal cannot be written to either, its appender sees to that for all of them.
func (b *Bus) reopen(since time.Time) error {
	if _, err := b.journal.Stalled(); err != nil {
		return nil
	}
	return b.srv.healOnce(since)
}

// stores opens what stands beside the journal.
func (b *Bus) stores(ctx context.Context, r *reader) (err error) {
	if b.manifests, err = openManifests(ctx, r, b.srv, b.opts.Node); err != nil {
		return err
	}
	if b.snapshots, err = openSnapshots(ctx, r, b.srv, b.opts.Node); err != nil {
		return err
	}
	b.manifests.mender.reopen, b.snapshots.mender.reopen = b.reopen, b.reopen
	return nil
}

// Opening is what Open found.
func (b *Bus) Opening() Opening { return b.opening }

// Journal is the node's journal.
func (b *Bus) Journal() *Journal { return b.journal }

// Manifests are the pod manifests that events name by digest.
func (b *Bus) Manifests() *Manifests { return b.manifests }

// Snapshots are the actors' folded states.
func (b *Bus) Snapshots() *Snapshots { return b.snapshots }

// Observers is the way out for events.
func (b *Bus) Observers() *Observers { return b.observers }

// Services is a connection in the agent's account for the services that answer observers' queries on
// journalet.>. It closes with the bus.
func (b *Bus) Services() *nats.Conn { return b.services }

// Addr is where NATS clients connect, "" if no port is open.
func (b *Bus) Addr() string {
	if b.opts.Listen == "" {
		return ""
	}
	return b.srv.srv.ClientURL()
}

// Close stores what is queued, until ctx ends, marks the journal's end as clean and stops the server.
// If something could not be stored the end is not clean, and Close says so. A second Close does nothing.
func (b *Bus) Close(ctx context.Context) error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.socket != nil {
		b.socket.close()
	}
	a := b.journal.a
	err := a.flush(ctx)
	if err != nil {
		err = fmt.Errorf("bus: some records could not be stored before the end: %w", err)
	}
	a.close()
	if err == nil {
		if err = b.blocks.force(); err != nil {
			err = fmt.Errorf("bus: force the journal to disk: %w", err)
		}
	}
	if herr := a.head.close(err == nil); herr != nil {
		err = errors.Join(err, fmt.Errorf("bus: write the journal's head: %w", herr))
	}
	b.seen = true
	b.release()
	return err
}

// abandon undoes an Open that failed.
func (b *Bus) abandon() {
	if b.socket != nil {
		b.socket.close()
	}
	if b.journal != nil {
		b.journal.a.close()
		_ = b.journal.a.head.close(false)
	}
	b.release()
}

func (b *Bus) release() {
	if b.outflow != nil {
		b.outflow.close()
	}
	for _, nc := range b.conns {
		nc.Close()
	}
	if b.srv != nil {
		b.srv.stop()
	}
	if b.seen {
		writeSeen(b.opts.Dir)
	}
	if b.lock != nil {
		b.lock.Close()
	}
}

// takeLock makes this process the folder's only agent. The lock ends with the process; the pid in the
// file is there for people.
func takeLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("bus: lock its folder: %w", err)
	}
	if err := flockSoon(f); err != nil {
		b, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("bus: the agent with pid %s runs with %s already: stop it first, or choose another --root-dir", strings.TrimSpace(string(b)), filepath.Dir(dir))
		}
		return nil, fmt.Errorf("bus: lock %s: %w", path, err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("bus: write %s: %w", path, err)
	}
	return f, nil
}

const (
	// lockPatience is how long an agent waits for the lock: a command that looks whether one runs holds it
	// for a moment, see Served.
	lockPatience = time.Second
	lockPause    = 20 * time.Millisecond
)

// flockSoon locks f, or fails with EWOULDBLOCK after lockPatience.
func flockSoon(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}

// Served tells whether an agent has the bus in dir open. It writes nothing.
func Served(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether an agent runs: %w", err)
	}
	defer f.Close() // and with it the lock goes
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether an agent runs: lock %s: %w", f.Name(), err)
	}
	return false, nil
}
