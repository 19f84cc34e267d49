package bus

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
)

// largePod returns a manifest of 1.4 MB that differs from others in a label and the end of a text.
func largePod(label, end string) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"Pod","metadata":{"labels":{"a":%q}},"spec":{"containers":[{"args":["`, label)
	for b.Len() < 1_400_000 {
		fmt.Fprintf(&b, "%x", r.Uint64())
	}
	fmt.Fprintf(&b, "%s\"]}]}}", end)
	return b.Bytes()
}

func putPod(t testing.TB, m *Manifests, data []byte) (digest string) {
	t.Helper()
	digest = digestOf(data)
	must.OK(t, m.Put(testContext(t), digest, data))
	return digest
}

func stateOf(t testing.TB, m *Manifests) jetstream.StreamState {
	t.Helper()
	state, err := m.reader.state(testContext(t), manifestStream)
	must.OK(t, err)
	return state
}

func TestChangeOfALargeManifestStoresOnlyItsParts(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	all := [][]byte{largePod("1", ""), largePod("22", ""), largePod("1", "more")}
	putPod(t, b.Manifests(), all[0])
	first := stateOf(t, b.Manifests()).Bytes
	putPod(t, b.Manifests(), all[1])
	closeBus(t, b)
	b = openBus(t, dir) // the parts are cut as before
	m := b.Manifests()
	putPod(t, m, all[2])
	if more := stateOf(t, m).Bytes - first; first < 1_400_000 || more > 2*(maxPart+20_000) {
		t.Errorf("%d bytes, and two changes of it add %d", first, more)
	}
	s, err := OpenShared(testContext(t), dir)
	must.OK(t, err)
	for i, data := range all {
		got, err := m.Get(testContext(t), digestOf(data))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d: %d bytes, %v", i, len(got), err)
		}
		if got, err = s.Manifest(testContext(t), digestOf(data)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d, from the files: %d bytes, %v", i, len(got), err)
		}
	}
	if digests, err := m.Digests(testContext(t)); err != nil || len(digests) != len(all) {
		t.Errorf("%v, %v", digests, err)
	}
	info, err := os.Stat(filepath.Join(dir, cutterFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the cutter's file has %v, %v", info, err)
	}
}

// The writer of a manifest must not know where it is cut.
func TestTwoNodesCutAManifestAtOtherPlaces(t *testing.T) {
	data := largePod("1", "")
	var cuts [2][]string
	for i := range cuts {
		var c cutter
		must.OK(t, c.open(t.TempDir()))
		parts, err := c.cut(data)
		must.OK(t, err)
		at := 0
		for _, p := range parts {
			if len(p) > maxPart || len(p) < minPart && at+len(p) != len(data) {
				t.Errorf("a part of %d bytes at %d", len(p), at)
			}
			at += len(p)
			cuts[i] = append(cuts[i], fmt.Sprint(at))
		}
		if at != len(data) {
			t.Errorf("the parts have %d bytes of %d", at, len(data))
		}
	}
	if strings.Join(cuts[0], " ") == strings.Join(cuts[1], " ") {
		t.Error("two nodes cut at the same places")
	}
}

func TestDamagedCutterFileIsReplaced(t *testing.T) {
	for _, content := range []string{"", `"0"`, `"zz"`, `"7"`, strings.Repeat("x", maxCutterFile)} {
		dir := t.TempDir()
		path := filepath.Join(dir, cutterFile)
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
		var c, again cutter
		must.OK(t, c.open(dir))
		must.OK(t, again.open(dir))
		if c != again || c.polynomial.Deg() != cutterDegree {
			t.Errorf("%q: %v, then %v", content, c, again)
		}
	}
}

func TestManifestsOfEarlierVersionsAreRead(t *testing.T) {
	m := openBus(t, busDir(t)).Manifests()
	data := largePod("1", "")
	digest := digestOf(data)
	_, err := m.reader.js.Publish(testContext(t), messages.ManifestSubject(m.node, digest), data) // whole
	must.OK(t, err)
	putPod(t, m, data)
	if got, err := m.Get(testContext(t), digest); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	msg, err := m.reader.latest(testContext(t), manifestStream, messages.ManifestSubject(m.node, digest))
	if err != nil || len(msg.Data) != len(data) {
		t.Errorf("it was written again, %v", err)
	}
}

func TestPartsAreCollectedWithTheLastManifestThatHasThem(t *testing.T) {
	m := openBus(t, busDir(t)).Manifests()
	kept := largePod("1", "")
	putPod(t, m, kept)
	alone := stateOf(t, m).Msgs
	gone := putPod(t, m, largePod("2", ""))
	if n, err := m.Collect(testContext(t), []string{gone}, ManifestGrace); n != 0 || err != nil {
		t.Fatalf("%d removed within the grace, %v", n, err)
	}
	if n, err := m.Collect(testContext(t), []string{gone}, 0); n != 1 || err != nil {
		t.Fatalf("%d removed, %v", n, err)
	}
	if got := stateOf(t, m).Msgs; got != alone {
		t.Errorf("%d messages are left, want %d", got, alone)
	}
	if _, err := m.Get(testContext(t), gone); !errors.Is(err, ErrNoManifest) {
		t.Error(err)
	}
	if got, err := m.Get(testContext(t), digestOf(kept)); err != nil || !bytes.Equal(got, kept) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	putPod(t, m, largePod("2", "")) // its parts are stored again
	if got, err := m.Get(testContext(t), gone); err != nil || len(got) != len(kept) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// What a crash between a manifest and its parts has left.
	must.OK(t, m.stream.Purge(testContext(t), jetstream.WithPurgeSubject(messages.ManifestSubject(m.node, gone))))
	if n, err := m.Collect(testContext(t), nil, 0); n != 0 || err != nil {
		t.Fatalf("%d removed, %v", n, err)
	}
	if got := stateOf(t, m).Msgs; got != alone {
		t.Errorf("%d messages are left, want %d", got, alone)
	}
}

func TestMissingOrDamagedPartIsStoredAgain(t *testing.T) {
	for name, spoil := range map[string]func(m *Manifests, subject string) error{
		"missing": func(m *Manifests, subject string) error {
			return m.stream.Purge(testContext(t), jetstream.WithPurgeSubject(subject))
		},
		"damaged": func(m *Manifests, subject string) error {
			_, err := m.reader.js.Publish(testContext(t), subject, []byte("damaged"))
			return err
		},
	} {
		m := openBus(t, busDir(t)).Manifests()
		data := largePod("1", "")
		digest := putPod(t, m, data)
		msg, err := m.reader.latest(testContext(t), manifestStream, messages.ManifestSubject(m.node, digest))
		must.OK(t, err)
		must.OK(t, spoil(m, messages.ManifestPartSubject(m.node, partsOf(msg.Data)[7])))
		if _, err := m.Get(testContext(t), digest); err == nil || errors.Is(err, ErrNoManifest) {
			t.Errorf("%s: read with %v", name, err)
		}
		clear(m.put) // as after a restart
		putPod(t, m, data)
		if got, err := m.Get(testContext(t), digest); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s, put again: %d bytes, %v", name, len(got), err)
		}
	}
}

// Each patch of a label, which any tenant may make of its own pods, is another manifest.
func TestThousandPatchesOfALargePodTakeLittleOfTheDisk(t *testing.T) {
	dir := busDir(t)
	m := openBus(t, dir, func(o *Options) { o.Sync = SyncPolicy{Interval: maxSyncInterval} }).Manifests()
	data := largePod("patch 0000", "")
	putPod(t, m, data)
	before := diskBytes(t, streamDir(dir, manifestStream))
	for i := range 1000 {
		putPod(t, m, bytes.Replace(data, []byte("patch 0000"), fmt.Appendf(nil, "patch %04d", i+1), 1))
	}
	if more := diskBytes(t, streamDir(dir, manifestStream)) - before; more > 20_000_000 {
		t.Errorf("1,000 patches add %d bytes", more)
	} else {
		t.Logf("1,000 patches add %d bytes", more)
	}
}

func diskBytes(t testing.TB, dir string) (n int64) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}))
	return n
}
