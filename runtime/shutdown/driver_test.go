package shutdown

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// patience bounds a wait of these tests.
const patience = time.Minute

// machine is a logind that a test plays. Its connections share its state.
type machine struct {
	mu      sync.Mutex
	delay   time.Duration
	dir     string
	active  bool
	locks   int
	dials   int
	refuse  error
	current *connection
	// changed receives after each change of locks or dials.
	changed chan struct{}
}

type connection struct {
	*machine
	announced chan bool
}

func newMachine(t *testing.T) *machine {
	return &machine{delay: 5 * time.Second, dir: t.TempDir(), changed: make(chan struct{}, 100)}
}

func (m *machine) dial(context.Context) (Logind, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dials++
	m.current = &connection{machine: m, announced: make(chan bool, 4)}
	m.changed <- struct{}{}
	return m.current, m.refuse
}

func (m *machine) InhibitDelay() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.delay, nil
}

// Reload reads the drop-in.
func (m *machine) Reload() error {
	b, err := os.ReadFile(filepath.Join(m.dir, DropIn))
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.delay = 5 * time.Second
		return nil
	case strings.Contains(string(b), "InhibitDelayMaxSec=40\n"):
		m.delay = 40 * time.Second
	}
	return err
}

type lock struct {
	m    *machine
	once sync.Once
}

func (m *machine) Inhibit() (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active {
		return nil, errors.New("the operation is in progress")
	}
	m.locks++
	m.changed <- struct{}{}
	return &lock{m: m}, nil
}

func (l *lock) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		l.m.locks--
		l.m.changed <- struct{}{}
	})
	return nil
}

func (m *machine) ShuttingDown() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active, nil
}

func (c *connection) Announced() <-chan bool { return c.announced }

func (c *connection) Close() error { return nil }

func (m *machine) announce(active bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active = active
	m.current.announced <- active
}

// await waits until the machine has so many locks and dials.
func (m *machine) await(t *testing.T, locks, dials int) {
	t.Helper()
	end := time.After(patience)
	for {
		m.mu.Lock()
		haveLocks, haveDials := m.locks, m.dials
		m.mu.Unlock()
		if haveLocks == locks && haveDials >= dials {
			return
		}
		select {
		case <-m.changed:
		case <-end:
			t.Fatalf("the machine has %d locks after %d connections, want %d and %d", haveLocks, haveDials, locks, dials)
		}
	}
}

// start runs a driver; signals receives what it records.
func start(t *testing.T, m *machine, seed func(*Driver)) (d *Driver, signals chan bool) {
	signals = make(chan bool, 10)
	d = New(Options{
		Dial: m.dial, Period: 40 * time.Second, ConfigDir: m.dir, RootDir: "/root-dir", Log: slog.New(slog.DiscardHandler),
		Record: func(_ context.Context, s *journaletv1.ShutdownSignaled) error { signals <- s.GetActive(); return nil },
	})
	if seed != nil {
		seed(d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() { cancel(); must.OK(t, <-ended) })
	return d, signals
}

func next(t *testing.T, signals chan bool) bool {
	t.Helper()
	select {
	case s := <-signals:
		return s
	case <-time.After(patience):
		t.Fatal("nothing was recorded")
		return false
	}
}

// progress is the node's report on a shutdown.
func progress(waitingFor ...string) *journaletv1.Record {
	return &journaletv1.Record{Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Decisions: []*journaletv1.Event{{
		Kind: &journaletv1.Event_DrainProgressed{
			DrainProgressed: &journaletv1.DrainProgressed{Shutdown: true, WaitingFor: waitingFor},
		},
	}}}}}
}

func TestLockIsReleasedWhenAllPodsHaveEnded(t *testing.T) {
	m := newMachine(t)
	d, signals := start(t, m, nil)
	m.await(t, 1, 1)
	m.announce(true)
	if !next(t, signals) {
		t.Fatal("the driver records that a shutdown was cancelled")
	}
	d.Stored(progress("u1"))
	m.await(t, 1, 1)
	d.Stored(progress())
	m.await(t, 0, 1)
	if delay, _ := m.InhibitDelay(); delay != 40*time.Second {
		t.Fatalf("logind allows a delay of %s, want 40s", delay)
	}
}

func TestCancelledShutdownIsRecordedAndTheNextOneDelayed(t *testing.T) {
	m := newMachine(t)
	d, signals := start(t, m, nil)
	m.await(t, 1, 1)
	for range 2 {
		m.announce(true)
		if !next(t, signals) {
			t.Fatal("the driver records no shutdown")
		}
		d.Stored(progress())
		m.await(t, 0, 1)
		m.announce(false)
		if next(t, signals) {
			t.Fatal("the driver records a shutdown")
		}
		m.await(t, 1, 1)
	}
}

func TestLostConnectionIsMadeAgainAndMissesNoShutdown(t *testing.T) {
	m := newMachine(t)
	_, signals := start(t, m, nil)
	m.await(t, 1, 1)
	m.mu.Lock()
	m.active = true // announced while nobody listens
	close(m.current.announced)
	m.mu.Unlock()
	if !next(t, signals) {
		t.Fatal("the driver records that a shutdown was cancelled")
	}
	m.await(t, 1, 2)
}

func TestRestartOfTheAgentDuringAShutdownRecordsNothingAgain(t *testing.T) {
	m := newMachine(t)
	m.active = true
	d, signals := start(t, m, func(d *Driver) { d.Seed(true, false) })
	m.await(t, 0, 1)
	d.Stored(progress())
	m.announce(false)
	if next(t, signals) {
		t.Fatal("the driver records a shutdown that was recorded before")
	}
	m.await(t, 1, 1)
}

func TestShutdownThatEndedWithoutNoticeIsRecordedAsCancelled(t *testing.T) {
	m := newMachine(t)
	_, signals := start(t, m, func(d *Driver) { d.Seed(true, true) })
	if next(t, signals) {
		t.Fatal("the driver records a shutdown")
	}
	m.await(t, 1, 1)
}

func TestDropInIsWithdrawnByItsAgentOnly(t *testing.T) {
	m := newMachine(t)
	start(t, m, nil)
	m.await(t, 1, 1)
	path := filepath.Join(m.dir, DropIn)
	if got, err := OwnDropIn(m.dir, "/root-dir"); got != path || err != nil {
		t.Fatalf("the drop-in is %q, %v; want %s", got, err, path)
	}
	withdrawn := func(root string, want bool, delay time.Duration) {
		t.Helper()
		got, err := Withdraw(t.Context(), m.dial, m.dir, root)
		must.OK(t, err)
		if now, _ := m.InhibitDelay(); got != want || now != delay {
			t.Errorf("%s: withdrawn %t, and logind allows %s; want %t, %s", root, got, now, want, delay)
		}
	}
	withdrawn("/root", false, 40*time.Second)
	withdrawn("/root-dir", true, 5*time.Second)
	withdrawn("/root-dir", false, 5*time.Second)
	must.OK(t, os.WriteFile(path, []byte("[Login]\n"), 0o600))
	withdrawn("/root-dir", false, 5*time.Second)
}
