package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages"
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
	accounts  *accounts
	lockedBy  []byte // what the lock said before, while the run has not begun
	found     *finding
	begun     bool
	closed    bool
	seen      bool // how the blocks look is noted when the server has stopped
}

// Open is Prepare and Begin, for those who have nothing to look at in between.
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

// Prepare opens the bus in o.Dir to be read, and makes it there if there is none. It recovers the streams and
// compares the journal with its head; what it found stands in Opening. A damaged journal is no error. Errors
// are: another agent has the folder open, the journal is another node's or of another format, or the folder
// cannot be used. What is appended waits for Begin. A Close before that leaves no trace of a run: the head, the
// epoch and what was told of damage stay as they were, so that the next start finds what this one found.
func Prepare(ctx context.Context, o Options) (b *Bus, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := refuseForeign(o.Dir, o.Node); err != nil {
		return nil, err
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, err
	}
	b = &Bus{opts: o}
	defer func() {
		if err != nil {
			b.release()
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
	if b.lockedBy, err = io.ReadAll(io.LimitReader(b.lock, 32)); err != nil {
		return b, fmt.Errorf("bus: read %s: %w", b.lock.Name(), err)
	}
	if err := signLock(b.lock, fmt.Appendln(nil, os.Getpid())); err != nil {
		return b, err
	}
	if b.accounts, err = newAccounts(o.Dir); err != nil {
		return b, err
	}
	kept, err := setAside(o.Dir, h.GetEpoch()+1)
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
	if err := found.settleCut(ctx, r, readCut(o.Dir, o.Log), o.Log); err != nil {
		return b, err
	}
	if found.Damage == nil {
		kept.drop()
	} else {
		found.Damage.Message += kept.where()
	}
	b.opening, b.found = found.Opening, found
	if err := b.lay(writer, r, found); err != nil {
		return b, err
	}
	return b, b.stores(ctx, r)
}

// Begin begins the run: its epoch is on disk before Begin returns, and from then on records are stored. Call it once,
// before anything that must not happen twice. After an error, which leaves no trace either, the bus can only be closed.
func (b *Bus) Begin() (err error) {
	if b.outflow, err = watchOutflow(b.srv.srv, b.conns, b.opts.Listen != ""); err != nil {
		return fmt.Errorf("bus: connect inside the process: %w", err)
	}
	if b.socket, err = listenSocket(b.opts.Dir, b.srv.srv, b.outflow.arrived, b.opts.Log); err != nil {
		return err
	}
	cut := b.socket.cut
	b.outflow.cut.Store(&cut)
	// What an earlier run left in the page cache counts as stored from now on.
	if err := b.blocks.force(); err != nil {
		return fmt.Errorf("bus: the journal's files are not where they should be: %w", err)
	}
	h, err := newHead(b.opts.Dir, b.found.head())
	if err != nil {
		return err
	}
	if err := b.found.keepHoles(b.opts.Dir); err != nil {
		b.opts.Log.Warn("what the journal misses could not be noted: it is told once more at the next start", "err", err)
	}
	writeSeen(b.opts.Dir)
	b.journal.a.head, b.journal.a.reserve = h, newReserve(b.opts.Dir, b.opts.Log)
	go b.journal.a.run()
	b.begun = true
	return nil
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

// lay lays out the journal; nothing is stored in it before Begin.
func (b *Bus) lay(writer *nats.Conn, r *reader, found *finding) error {
	l, err := newNATSLink(b.srv, writer, r, b.opts.Sync.Always)
	if err != nil {
		return err
	}
	b.blocks = l.blocks
	a := newAppender(b.opts.Node, found.Epoch, found.Last, found.hash, l, nil, b.opts.Log)
	b.journal = &Journal{a: a, reader: r, node: b.opts.Node, dir: b.opts.Dir, blocks: b.blocks, least: MinKept}
	b.journal.cut.Store(found.cut)
	b.journal.first.Store(found.first)
	b.observers = &Observers{node: b.opts.Node, nc: b.services, agent: b.accounts.agent, observer: b.accounts.observer}
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
// If something could not be stored the end is not clean, and Close says so. A second Close does nothing, and
// one before Begin ends what Prepare opened.
func (b *Bus) Close(ctx context.Context) error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.socket != nil {
		b.socket.close()
	}
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
		if b.lockedBy != nil && !b.begun {
			_ = signLock(b.lock, b.lockedBy) // it names nobody who could be asked, before or after
		}
		b.lock.Close()
	}
}

// refuseForeign refuses a journal of another format or of another node before any of its files is touched. Where the
// description of its stream cannot be read, the node is compared when the streams are open.
func refuseForeign(dir, node string) error {
	if _, err := readHead(dir); err != nil && !errors.Is(err, errHeadDamaged) {
		return err
	}
	of, err := (&Stored{dir: dir}).describe()
	switch {
	case err != nil:
		return nil
	case of.node != messages.Token(node):
		return fmt.Errorf("bus: the journal is another node's (%q, and this one is %q): give this node its own --root-dir, or its former name", of.node, node)
	}
	return checkFormat(dir, of.format)
}

// takeLock makes this process the folder's only agent. The lock ends with the process.
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
	return f, nil
}

// signLock writes who holds the lock, for people.
func signLock(f *os.File, pid []byte) error {
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
