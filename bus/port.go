package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// errPlainPort refuses a port that others can reach and that is not encrypted: a holder of the key for queries receives
// whole pods, with the values of their env.
var errPlainPort = errors.New("an address that other machines can reach needs TLS: " +
	"set --bus-tls-cert-file and --bus-tls-private-key-file, or listen on 127.0.0.1")

// CheckListen returns an error unless address is host:port and either on the loopback interface or encrypted.
func CheckListen(address, certFile, keyFile string) error {
	if (certFile == "") != (keyFile == "") {
		return errors.New("TLS needs both --bus-tls-cert-file and --bus-tls-private-key-file")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%q is not host:port, such as 127.0.0.1:4222", address)
	}
	if certFile == "" && !onLoopback(host) {
		return fmt.Errorf("%q: %w", address, errPlainPort)
	}
	return nil
}

// onLoopback reports whether a host is this machine's loopback interface, by its address or as localhost.
func onLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || host == "localhost"
}

// port is the door of clients on the network.
type port struct {
	*door
	url string
}

func listenPort(o Options, srv *server.Server, onConnect func()) (*port, error) {
	scheme, config, err := "nats", (*tls.Config)(nil), error(nil)
	if o.TLSCertFile != "" {
		scheme = "tls"
		if config, err = serverTLS(o.TLSCertFile, o.TLSPrivateKeyFile, o.Log); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("bus: listen on %s (--bus-listen): %w", o.Listen, err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); config == nil && (!ok || !tcp.IP.IsLoopback()) {
		l.Close()
		return nil, fmt.Errorf("bus: listen on %s (--bus-listen), which is %s: %w", o.Listen, l.Addr(), errPlainPort)
	}
	return &port{newDoor(l, srv, maxPortConns, maxStrangers, config, onConnect, o.Log),
		scheme + "://" + l.Addr().String()}, nil
}

// serverTLS returns a configuration that reads the certificate again when its file has changed.
func serverTLS(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	f := &certificateFile{cert: certFile, key: keyFile, log: log}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("bus: read the certificate (--bus-tls-cert-file, --bus-tls-private-key-file): %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13, // every NATS client of today has it
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current(), nil },
	}, nil
}

// certificateFile is a certificate in files that may be renewed.
type certificateFile struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	changed time.Time
	loaded  *tls.Certificate
}

// current returns the certificate in the files, or the one before if they cannot be read.
func (f *certificateFile) current() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		f.log.Warn("cannot read the renewed certificate of the bus; the one before stays", "err", err)
	}
	return f.loaded
}

func (f *certificateFile) load() error {
	info, err := os.Stat(f.cert)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(f.changed) {
		return nil
	}
	c, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return err
	}
	f.loaded, f.changed = &c, info.ModTime()
	return nil
}
