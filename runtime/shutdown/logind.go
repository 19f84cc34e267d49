package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	logindName = "org.freedesktop.login1"
	logindPath = dbus.ObjectPath("/org/freedesktop/login1")
	logindType = logindName + ".Manager"
	// announcement is the signal that announces a shutdown.
	announcement = "PrepareForShutdown"

	systemdName = "org.freedesktop.systemd1"
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	logindUnit  = "systemd-logind.service"

	// callTimeout bounds one call. D-Bus default: 25 s.
	callTimeout = 10 * time.Second
	// maxSignals bounds the announcements that wait; there are two for each shutdown at most.
	maxSignals = 16
)

// logind speaks to systemd-logind over the system's D-Bus.
type logind struct {
	ctx       context.Context
	conn      *dbus.Conn
	announced chan bool
}

// Dial connects to systemd-logind. The connection lasts until ctx ends.
func Dial(ctx context.Context) (Logind, error) {
	conn, err := dbus.ConnectSystemBus(dbus.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("connect to the system's D-Bus: %w", err)
	}
	l := &logind{ctx: ctx, conn: conn, announced: make(chan bool, maxSignals)}
	signals := make(chan *dbus.Signal, maxSignals)
	conn.Signal(signals)
	if err := conn.AddMatchSignal(dbus.WithMatchInterface(logindType), dbus.WithMatchMember(announcement),
		dbus.WithMatchObjectPath(logindPath)); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to logind: %w", err), conn.Close())
	}
	go l.receive(signals)
	return l, nil
}

// receive passes announcements on until the connection ends.
func (l *logind) receive(signals <-chan *dbus.Signal) {
	defer close(l.announced)
	for s := range signals {
		if s.Name != logindType+"."+announcement || len(s.Body) == 0 {
			continue
		}
		if active, ok := s.Body[0].(bool); ok {
			select {
			case l.announced <- active:
			case <-l.ctx.Done():
				return
			}
		}
	}
}

// Announced receives the announcements of shutdowns.
func (l *logind) Announced() <-chan bool { return l.announced }

// Close closes the connection.
func (l *logind) Close() error { return l.conn.Close() }

func (l *logind) call(name string, path dbus.ObjectPath, method string, into any, args ...any) error {
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
	defer cancel()
	c := l.conn.Object(name, path).CallWithContext(ctx, method, 0, args...)
	if c.Err == nil && into != nil {
		c.Err = c.Store(into)
	}
	if c.Err != nil {
		return fmt.Errorf("%s: %w", method, c.Err)
	}
	return nil
}

func (l *logind) property(name string, into any) error {
	var v dbus.Variant
	if err := l.call(logindName, logindPath, "org.freedesktop.DBus.Properties.Get", &v, logindType, name); err != nil {
		return fmt.Errorf("read %s of logind: %w", name, err)
	}
	if err := v.Store(into); err != nil {
		return fmt.Errorf("read %s of logind: %w", name, err)
	}
	return nil
}

// InhibitDelay returns InhibitDelayMaxUSec.
func (l *logind) InhibitDelay() (time.Duration, error) {
	var micros uint64
	err := l.property("InhibitDelayMaxUSec", &micros)
	return time.Duration(micros) * time.Microsecond, err
}

// ShuttingDown returns PreparingForShutdown.
func (l *logind) ShuttingDown() (active bool, err error) {
	err = l.property("PreparingForShutdown", &active)
	return active, err
}

// Inhibit takes a delay lock.
func (l *logind) Inhibit() (io.Closer, error) {
	var fd dbus.UnixFD
	if err := l.call(logindName, logindPath, logindType+".Inhibit", &fd, "shutdown", "journalet",
		"pods end before the machine shuts down", "delay"); err != nil {
		return nil, err
	}
	syscall.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), "inhibitor lock"), nil
}

// Reload sends SIGHUP to logind.
func (l *logind) Reload() error {
	return l.call(systemdName, systemdPath, systemdName+".Manager.KillUnit", nil, logindUnit, "all", int32(syscall.SIGHUP))
}
