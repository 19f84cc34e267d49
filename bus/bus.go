package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
)

const lockFile = "LOCK"

// maxPIDFile bounds what is read of it: the holder's pid.
const maxPIDFile = 32

// Bus is the open bus of one node. Only one process at a time has a directory's bus open.
type Bus struct {
	opts        Options
	lock        *os.File
	srv         *embedded
	conns       []*nats.Conn
	services    *nats.Conn
	opening     Opening
	journal     *Journal
	blocks      *blocks // of the journal
	manifests   *Manifests
	snapshots   *Snapshots
	observers   *Observers
	socket      *socket
	port        *port // nil without Options.Listen
	slow        *slowConsumers
	accounts    *accounts
	previousPID []byte // content of the lock file before this process; nil if unknown
	found       *finding
	begun       bool
	closed      bool
	sound       bool // the blocks are recorded as sound (SEEN) when the server has stopped
}

// Open calls Prepare and Begin, for callers that need not inspect anything in between.
func Open(ctx context.Context, o Options) (*Bus, error) {
	b, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := b.Begin(); err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

// Prepare opens the bus in o.Dir for reading, and creates it if needed. It recovers the streams and compares
// the journal with its head; Opening returns the result. A damaged journal is no error. Errors are: another agent has
// the directory open, the journal is another node's or of another format, or the directory cannot be used. Appended
// records wait for Begin. A Close before Begin leaves no trace of a run: head, epoch and the count of missing records
// stay as they were, so that the next start finds the same.
func Prepare(ctx context.Context, o Options) (b *Bus, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := errors.Join(refuseForeign(o.Dir, o.Node), refuseImported(o.Dir)); err != nil {
		return nil, err
	}
	if err := createDir(o.Dir); err != nil {
		return nil, err
	}
	b = &Bus{opts: o}
	defer func() {
		if err != nil {
			b.release()
			b = nil
		}
	}()
	if b.lock, err = acquireLock(o.Dir); err != nil {
		return b, err
	}
	h, err := readHead(o.Dir)
	headLost := errors.Is(err, errHeadDamaged)
	if err != nil && !headLost {
		return b, err
	}
	if b.previousPID, err = bounded.ReadAll(b.lock, maxPIDFile); err != nil && !errors.Is(err, bounded.ErrTooLarge) {
		return b, fmt.Errorf("bus: read %s: %w", b.lock.Name(), err)
	}
	if err := writePID(b.lock, fmt.Appendln(nil, os.Getpid())); err != nil {
		return b, err
	}
	if b.accounts, err = newAccounts(o.Dir); err != nil {
		return b, err
	}
	kept, err := copyDamaged(o.Dir, h.GetEpoch()+1)
	if err != nil {
		return b, err
	}
	if b.srv, err = startServer(ctx, o, b.accounts); err != nil {
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
	if err := found.finishCut(ctx, r, readCut(o.Dir, o.Log), o.Log); err != nil {
		return b, err
	}
	if found.Damage == nil {
		kept.drop()
	} else {
		found.Damage.Message += kept.location()
	}
	b.opening, b.found = found.Opening, found
	if err := b.openJournal(writer, r, found); err != nil {
		return b, err
	}
	return b, b.openStores(ctx, r)
}

// Begin begins the run. Its epoch is on disk before Begin returns; from then on records are stored. Call it once,
// before anything that must not happen twice. After an error, which leaves no trace either, the bus can only be
// closed.
func (b *Bus) Begin() (err error) {
	if b.slow, err = watchSlowConsumers(b.srv.srv, b.conns); err != nil {
		return fmt.Errorf("bus: connect inside the process: %w", err)
	}
	if b.socket, err = listenSocket(b.opts.Dir, b.srv.srv, b.slow.connected, b.opts.Log); err != nil {
		return err
	}
	if b.opts.Listen != "" {
		if b.port, err = listenPort(b.opts, b.srv.srv, b.slow.connected); err != nil {
			return err
		}
	}
	cut := b.disconnect
	b.slow.disconnect.Store(&cut)
	// What an earlier run left in the page cache counts as stored from now on.
	if err := b.blocks.force(); err != nil {
		return fmt.Errorf("bus: force the journal to disk: %w", err)
	}
	if err := b.removeLostSnapshots(); err != nil {
		return err
	}
	h, err := newHead(b.opts.Dir, b.found.head())
	if err != nil {
		return err
	}
	if err := b.found.keepHoles(b.opts.Dir); err != nil {
		b.opts.Log.Warn("cannot store the count of missing records: the next start reports them again", "err", err)
	}
	writeSeen(b.opts.Dir)
	b.journal.a.head, b.journal.a.reserve = h, newReserve(b.opts.Dir, b.opts.Log)
	go b.journal.a.run()
	b.observers.start()
	b.begun = true
	return nil
}

// removeLostSnapshots removes sets of snapshots that contain records which are no longer there: new records get the
// numbers of the lost ones.
func (b *Bus) removeLostSnapshots() error {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	if err := b.snapshots.removeAbove(ctx, b.found.Last); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	return nil
}

// disconnect closes a client's connection, whichever door it came through.
func (b *Bus) disconnect(id uint64) {
	b.socket.disconnect(id)
	if b.port != nil {
		b.port.disconnect(id)
	}
}

func createDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) //nolint:gosec // a directory: 0700 is the owner's alone
	}
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("bus: the disk that holds %s is mounted read-only, by its mount options or because it failed: "+
			"check the kernel's log, mount it writable, or choose another --root-dir: %w", dir, err)
	}
	if err != nil {
		return fmt.Errorf("bus: create its directory with mode 0700: %w", err)
	}
	return nil
}

// connect opens four connections, so that a long read, a long response or a burst of events for observers delays
// neither an append nor each other.
func (b *Bus) connect() (writer *nats.Conn, r *reader, err error) {
	for _, name := range []string{"writer", "reader", "services", "events"} {
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

// openJournal sets up the journal; nothing is stored in it before Begin.
func (b *Bus) openJournal(writer *nats.Conn, r *reader, found *finding) error {
	l, err := newNATSLink(b.srv, writer, r, b.opts.Sync.Always)
	if err != nil {
		return err
	}
	b.blocks = l.blocks
	a := newAppender(b.opts.Node, found.Epoch, found.Last, found.hash, l, nil, b.opts.Log)
	b.journal = &Journal{a: a, reader: r, node: b.opts.Node, dir: b.opts.Dir, blocks: b.blocks, least: MinKept}
	b.journal.cut.Store(found.cut)
	b.journal.first.Store(found.first)
	b.observers = newObservers(b.opts.Node, b.conns[3], b.accounts, b.opts.Log)
	b.observers.withhold = b.opts.Withhold
	return nil
}

// reopen opens the streams again for a stream other than the journal's that met a write error and refuses every write
// since. While the journal cannot store either, its appender does that for all of them.
func (b *Bus) reopen(since time.Time) error {
	if _, err := b.journal.Stalled(); err != nil {
		return nil
	}
	return b.srv.reopenStreamsOnce(since)
}

// openStores opens manifests and snapshots.
func (b *Bus) openStores(ctx context.Context, r *reader) (err error) {
	if b.manifests, err = openManifests(ctx, r, b.srv, b.opts.Node); err != nil {
		return err
	}
	if b.snapshots, err = openSnapshots(ctx, r, b.srv, b.opts.Node); err != nil {
		return err
	}
	b.snapshots.cutTo, b.snapshots.last = b.journal.CutTo, b.journal.Last
	b.manifests.charge = b.journal.a.charge
	b.manifests.reopener.reopen, b.snapshots.reopener.reopen = b.reopen, b.reopen
	return nil
}

// Opening returns what Prepare found.
func (b *Bus) Opening() Opening { return b.opening }

// Journal returns the node's journal.
func (b *Bus) Journal() *Journal { return b.journal }

// Manifests returns the pod manifests that events name by digest.
func (b *Bus) Manifests() *Manifests { return b.manifests }

// Snapshots returns the actors' folded states.
func (b *Bus) Snapshots() *Snapshots { return b.snapshots }

// Observers returns the publisher of events.
func (b *Bus) Observers() *Observers { return b.observers }

// Services returns a connection in the agent's account for the services that answer queries on journalet.>. It closes
// with the bus.
func (b *Bus) Services() *nats.Conn { return b.services }

// Addr returns the URL where NATS clients connect, "" if no port is open.
func (b *Bus) Addr() string {
	if b.port == nil {
		return ""
	}
	return b.port.url
}

// Close stores what is queued, until ctx ends, marks the journal's end as clean and stops the server. If something
// could not be stored, the end is not clean and Close returns an error. A second Close does nothing. A Close before
// Begin ends what Prepare opened.
func (b *Bus) Close(ctx context.Context) error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.closeDoors()
	if !b.begun {
		b.release()
		return nil
	}
	a := b.journal.a
	err := a.flush(ctx)
	if err != nil {
		err = fmt.Errorf("bus: some records could not be stored before the end: %w", err)
	}
	a.close()
	b.observers.close()
	if err == nil {
		if err = b.blocks.force(); err != nil {
			err = fmt.Errorf("bus: force the journal to disk: %w", err)
		}
	}
	if herr := a.head.close(err == nil); herr != nil {
		err = errors.Join(err, fmt.Errorf("bus: write the journal's head: %w", herr))
	}
	b.sound = true
	b.release()
	return err
}

func (b *Bus) closeDoors() {
	if b.port != nil {
		b.port.close()
	}
	if b.socket != nil {
		b.socket.close()
	}
}

func (b *Bus) release() {
	if b.slow != nil {
		b.slow.close()
	}
	for _, nc := range b.conns {
		nc.Close()
	}
	if b.srv != nil {
		b.srv.stop()
	}
	if b.sound {
		writeSeen(b.opts.Dir)
	}
	if b.lock != nil {
		if b.previousPID != nil && !b.begun {
			_ = writePID(b.lock, b.previousPID) // only a text for people: an error does no harm
		}
		b.lock.Close()
	}
}

// refuseForeign refuses a journal of another format or of another node before any of its files is touched. Where the
// description of its stream cannot be read, the node is compared once the streams are open.
func refuseForeign(dir, node string) error {
	if _, err := readHead(dir); err != nil && !errors.Is(err, errHeadDamaged) {
		return err
	}
	description, err := (&Stored{dir: dir}).describe()
	switch {
	case err != nil:
		return nil
	case description.node != messages.Token(node):
		return fmt.Errorf("bus: the journal is another node's (%q, and this one is %q): "+
			"give this node its own --root-dir, or its former name", description.node, node)
	}
	return checkFormat(dir, description.format)
}

// acquireLock makes this process the directory's only agent. The lock ends with the process.
func acquireLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("bus: lock its directory: %w", err)
	}
	if err := flockWithin(f); err != nil {
		b, _ := bounded.ReadAll(f, maxPIDFile)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf(
				"bus: the agent with pid %s runs with %s already: stop it first, or choose another --root-dir",
				strings.TrimSpace(string(b)), filepath.Dir(dir))
		}
		return nil, fmt.Errorf("bus: lock %s: %w", path, err)
	}
	return f, nil
}

// writePID writes the lock's holder into it, for error messages.
func writePID(f *os.File, pid []byte) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(pid, 0)
	}
	if err != nil {
		return fmt.Errorf("bus: write %s: %w", f.Name(), err)
	}
	return nil
}

const (
	// lockTimeout is how long an agent waits for the lock: Served holds it for a moment.
	lockTimeout = time.Second
	lockPoll    = 20 * time.Millisecond
)

// flockWithin locks f, or fails with EWOULDBLOCK after lockTimeout.
func flockWithin(f *os.File) error {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(lockPoll) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}

// Lock keeps agents and other commands from opening the bus in dir until release is called; a directory that does not
// exist has nothing to lock. It fails with ErrServed while an agent runs there.
func Lock(dir string) (release func(), err error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	served, err := Served(dir)
	if err != nil {
		return nil, err
	}
	if served {
		return nil, ErrServed
	}
	f, err := acquireLock(dir)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Served reports whether an agent has the bus in dir open. It writes nothing.
func Served(dir string) (bool, error) {
	f, err := bounded.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether an agent runs: %w", err)
	}
	defer f.Close() // releases the lock
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether an agent runs: lock %s: %w", f.Name(), err)
	}
	return false, nil
}
