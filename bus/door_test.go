package bus

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// writeCertificate writes a certificate for 127.0.0.1 that is its own authority, and its key.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "bus"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	must.OK(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must.OK(t, err)
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	must.OK(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must.OK(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

func TestPortIsEncryptedWithTLS(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	b := openBus(t, busDir(t), func(o *Options) {
		o.Listen, o.TLSCertFile, o.TLSPrivateKeyFile = "127.0.0.1:0", cert, key
	})
	servePods(t, b, func(r micro.Request) { _ = r.Respond([]byte("two pods")) })
	if !strings.HasPrefix(b.Addr(), "tls://127.0.0.1:") {
		t.Fatal(b.Addr())
	}
	nc, err := DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, QueryKeyFile), nats.RootCAs(cert))
	must.OK(t, err)
	defer nc.Close()
	m, err := nc.RequestWithContext(testContext(t), "journalet.n.pods", nil)
	if err != nil || string(m.Data) != "two pods" {
		t.Fatalf("%v, %v", m, err)
	}
	if s, err := nc.TLSConnectionState(); err != nil || s.PeerCertificates[0].SerialNumber.Int64() != 1 {
		t.Fatalf("not encrypted: %v", err)
	}
	if nc, err := DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, QueryKeyFile)); err == nil {
		nc.Close()
		t.Fatal("a client trusts an unknown authority")
	}
	// A client that does not encrypt gets no further than the first line.
	c, err := net.Dial("tcp", strings.TrimPrefix(b.Addr(), "tls://"))
	must.OK(t, err)
	defer c.Close()
	r := bufio.NewReader(c)
	_, err = fmt.Fprint(c, connectLine(helloOf(t, b, r))+"PING\r\n")
	must.OK(t, err)
	must.OK(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	if line, err := r.ReadString('\n'); err == nil {
		t.Fatalf("a client that does not encrypt gets %q", line)
	}
}

func TestRenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	b := openBus(t, busDir(t), func(o *Options) {
		o.Listen, o.TLSCertFile, o.TLSPrivateKeyFile = "127.0.0.1:0", cert, key
	})
	writeCertificate(t, dir, 2)
	must.OK(t, os.Chtimes(cert, time.Time{}, time.Now().Add(time.Minute)))
	nc, err := DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, ObserverKeyFile), nats.RootCAs(cert))
	must.OK(t, err)
	nc.Close()
	must.OK(t, os.WriteFile(key, []byte("half a k"), 0o600))
	must.OK(t, os.Chtimes(cert, time.Time{}, time.Now().Add(2*time.Minute)))
	nc, err = DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, ObserverKeyFile), nats.RootCAs(cert))
	must.OK(t, err) // the certificate before stays
	nc.Close()
}

func TestPortThatOthersCanReachIsRefusedWithoutTLS(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:4222", "node.example:4222"} {
		_, err := Open(testContext(t), Options{Dir: busDir(t), Node: testNode, Log: quiet, Listen: address})
		if !errors.Is(err, errPlainPort) || !strings.Contains(err.Error(), "--bus-tls-cert-file") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"} {
		must.OK(t, CheckListen(address, "", ""))
	}
	must.OK(t, CheckListen(":4222", "c", "k"))
	if err := CheckListen("127.0.0.1:1", "c", ""); err == nil {
		t.Error("a certificate without a key was accepted")
	}
	if localURL("nats://10.0.0.1:4222") || localURL("10.0.0.1") || localURL("localhost,host:1") ||
		!localURL("127.0.0.1:1") {
		t.Error("a remote server counts as local, or the other way round")
	}
}

// Peers without a key that fill the port keep neither the command line out nor a client of the port.
func TestStrangersKeepNoClientOut(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Listen = "127.0.0.1:0" })
	address := strings.TrimPrefix(b.Addr(), "nats://")
	stop := make(chan struct{})
	var loops sync.WaitGroup
	for range 200 {
		loops.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := net.Dial("tcp", address)
				if err != nil {
					select {
					case <-stop: // the port closes
					default:
						t.Error(err)
					}
					return
				}
				_, _ = bufio.NewReader(c).ReadBytes(0) // until the agent disconnects it
				c.Close()
			}
		})
	}
	waitUntil(t, "the port is crowded", func() bool {
		b.port.mu.Lock()
		defer b.port.mu.Unlock()
		return len(b.port.strangers) == maxStrangers
	})
	for range maxSocketConns { // all of the command line's connections at once
		nc, _ := observe(t, b)
		must.OK(t, nc.Flush())
	}
	waitUntil(t, "a client of the port signs in", func() bool {
		nc, err := DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, ObserverKeyFile))
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	close(stop)
	b.port.close()
	b.port = nil
	loops.Wait()
}

// failing is a listener that has no descriptor left, a few times.
type failing struct {
	net.Listener
	left int
}

func (l *failing) Accept() (net.Conn, error) {
	if l.left--; l.left >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestDoorAcceptsAgainAfterErrors(t *testing.T) {
	b := openBus(t, busDir(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	d := newDoor(&failing{l, 4}, b.srv.srv, 1, 1, nil, func() {}, log)
	nc, err := DialURL(testContext(t), l.Addr().String(), keyPath(b.opts.Dir, ObserverKeyFile))
	must.OK(t, err)
	nc.Close()
	d.close()
	got := out.String()
	if strings.Count(got, "cannot accept") != 1 || strings.Count(got, "accepts connections again") != 1 {
		t.Errorf("the log is:\n%s", got)
	}
}

func TestClientsOfThePortReceiveEvents(t *testing.T) {
	b := openBus(t, busDir(t), func(o *Options) { o.Listen = "localhost:0" })
	nc, err := DialURL(testContext(t), b.Addr(), keyPath(b.opts.Dir, ObserverKeyFile))
	must.OK(t, err)
	defer nc.Close()
	sub, err := nc.SubscribeSync(messages.EventFilter(testNode))
	must.OK(t, err)
	must.OK(t, nc.Flush())
	rec := fact(messages.Pod("p"), 0)
	rec.Seq = 9
	b.Observers().Publish(rec)
	m, err := sub.NextMsgWithContext(testContext(t))
	must.OK(t, err)
	var f messages.Flat
	if err := json.Unmarshal(m.Data, &f); err != nil || f.Seq != 9 {
		t.Fatalf("%s, %v", m.Data, err)
	}
}
