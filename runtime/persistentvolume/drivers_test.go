package persistentvolume

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

func TestARegisteredDriverIsReportedWithTheNodeAsItKnowsIt(t *testing.T) {
	fake := &fakecsi.Driver{Info: &csi.NodeGetInfoResponse{
		NodeId: "i-1", MaxVolumesPerNode: 7,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{"example.com/zone": "z", "example.com/rack": "r"}},
	}}
	socket, _ := fakecsi.Start(t, fake, t.TempDir())
	var got storagev1.CSINodeDriver
	var topology map[string]string
	refuse := errors.New("no CSINode yet")
	d := NewDrivers(DriverOptions{NewConn: newConn, Registered: func(
		_ context.Context, n storagev1.CSINodeDriver, t map[string]string,
	) error {
		got, topology = n, t
		return refuse
	}})
	if err := d.Register(t.Context(), driverName, socket); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	if _, err := d.get(driverName); err == nil {
		t.Error("a driver that was not registered is used")
	}
	refuse = nil
	must.OK(t, d.Register(t.Context(), driverName, socket))
	if got.Name != driverName || got.NodeID != "i-1" || *got.Allocatable.Count != 7 ||
		topology["example.com/zone"] != "z" ||
		!slices.Equal(got.TopologyKeys, []string{"example.com/rack", "example.com/zone"}) {
		t.Errorf("got %+v, %v", got, topology)
	}
}

func TestTheNodeOfADriverIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range maxSegments + 1 {
		many["example.com/k"+strings.Repeat("x", i)] = "v"
	}
	for want, info := range map[string]*csi.NodeGetInfoResponse{
		"node id of 0 bytes":     {},
		"node id of 200 bytes":   {NodeId: strings.Repeat("x", 200)},
		"topology of 65":         {NodeId: "n", AccessibleTopology: &csi.Topology{Segments: many}},
		"cannot be a label":      {NodeId: "n", AccessibleTopology: segments("a b", "c")},
		"larger than max":        {NodeId: strings.Repeat("x", maxAnswer+1)},
		"cannot be a label: \"k": {NodeId: "n", AccessibleTopology: segments("k", "a b")},
	} {
		socket, _ := fakecsi.Start(t, &fakecsi.Driver{Info: info}, t.TempDir())
		d := NewDrivers(DriverOptions{NewConn: newConn, Registered: func(
			context.Context, storagev1.CSINodeDriver, map[string]string,
		) error {
			t.Errorf("%s: registered", want)
			return nil
		}})
		if err := d.Register(t.Context(), driverName, socket); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func segments(key, value string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{key: value}}
}

func TestNamesAndVersionsOfDriversAreChecked(t *testing.T) {
	d := NewDrivers(DriverOptions{})
	must.OK(t, d.Validate("Disk.example.com", []string{"0.3.0", "1.0.0"}))
	for _, name := range []string{"", "../x", "a/b", "a b", strings.Repeat("a", 64)} {
		if d.Validate(name, []string{"1.0.0"}) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	for _, versions := range [][]string{nil, {"0.3.0"}, {"2.0.0"}, {"11.0"}} {
		if d.Validate(driverName, versions) == nil {
			t.Errorf("%q are accepted", versions)
		}
	}
}

func TestADriverThatRegistersAgainIsNotGone(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "new"), 0o700))
	old, _ := fakecsi.Start(t, &fakecsi.Driver{}, dir)
	socket, _ := fakecsi.Start(t, &fakecsi.Driver{}, filepath.Join(dir, "new"))
	var gone []string
	d := NewDrivers(DriverOptions{NewConn: newConn, Gone: func(_ context.Context, name string) {
		gone = append(gone, name)
	}})
	must.OK(t, d.Register(t.Context(), driverName, old))
	must.OK(t, d.Register(t.Context(), driverName, socket))
	d.Deregister(driverName, old) // late: it was replaced
	if _, err := d.get(driverName); err != nil {
		t.Error(err)
	}
	d.Deregister(driverName, socket)
	must.OK(t, d.Register(t.Context(), driverName, socket))
	d.reportGone(t.Context())
	if len(gone) > 0 {
		t.Errorf("gone: %v", gone)
	}
	d.Deregister(driverName, socket)
	d.reportGone(t.Context())
	d.reportGone(t.Context())
	if !slices.Equal(gone, []string{driverName}) {
		t.Errorf("gone: %v", gone)
	}
}

// Answers that are not gRPC, and a driver that ends each connection, are errors and in doubt.
func TestGarbageIsAnErrorAndInDoubt(t *testing.T) {
	r := newRig(t)
	handle := inlineHandle("p1", "data")
	must.OK(t, r.setUp(r.pod("p1", inline("data"))))
	r.expect("NodePublishVolume " + handle)
	for _, answer := range []string{"HTTP/1.1 200 OK\r\n\r\n", "\x00\x00\x00", ""} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		must.OK(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(answer))
				_ = c.Close()
			}
		}()
		must.OK(t, r.drivers.Register(t.Context(), driverName, socket))
		if err := r.tearDown("p1"); err == nil || !inDoubt(err) {
			t.Errorf("%q: got %v", answer, err)
		}
		must.OK(t, l.Close())
		<-done
	}
	must.OK(t, r.drivers.Register(t.Context(), driverName, r.socket))
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}
