package bus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return digestPrefix + hex.EncodeToString(sum[:])
}

func TestManifestsAreStoredOnceAndChecked(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	m := b.Manifests()
	small, large := []byte("kind: Pod"), bytes.Repeat([]byte("x"), MaxManifestBytes)
	for range 3 {
		for _, data := range [][]byte{small, large} {
			must.OK(t, m.Put(testContext(t), digestOf(data), data))
		}
	}
	closeBus(t, b)
	b = openBus(t, dir)
	m = b.Manifests()
	for _, data := range [][]byte{small, large} {
		got, err := m.Get(testContext(t), digestOf(data))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	state, err := m.reader.state(testContext(t), manifestStream)
	if err != nil || state.LastSeq != 3 { // one in parts, which are all the same
		t.Fatalf("written %d times, %v", state.LastSeq, err)
	}
	if _, err := m.Get(testContext(t), digestOf([]byte("other"))); !errors.Is(err, ErrNoManifest) {
		t.Fatal(err)
	}
	if err := m.Put(testContext(t), digestOf(small), large); err == nil {
		t.Fatal("stored under another digest")
	}
	if err := m.Put(testContext(t), digestOf(append(large, 'x')), append(large, 'x')); err == nil {
		t.Fatal("stored one that is too large")
	}
	for _, digest := range []string{"", "sha256:", "md5:00", "sha256:" + fmt.Sprintf("%064X", 10), "sha256:../../x"} {
		if _, err := m.Get(testContext(t), digest); err == nil || errors.Is(err, ErrNoManifest) {
			t.Errorf("%q was accepted: %v", digest, err)
		}
	}
	all, err := m.Digests(testContext(t))
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	must.OK(t, m.Put(testContext(t), digestOf(large), large))
	if n, err := m.Collect(testContext(t), []string{digestOf(large)}, ManifestGrace); err != nil || n != 0 {
		t.Fatalf("%d removed within the grace, %v", n, err)
	}
	if n, err := m.Collect(testContext(t), []string{digestOf(large)}, 0); err != nil || n != 1 {
		t.Fatalf("%d removed, %v", n, err)
	}
	if _, err := m.Get(testContext(t), digestOf(large)); !errors.Is(err, ErrNoManifest) {
		t.Fatal(err)
	}
	must.OK(t, m.Put(testContext(t), digestOf(large), large))
}

func snapshotsOf(n int, barrier uint64) []*journaletv1.Snapshot {
	out := make([]*journaletv1.Snapshot, n)
	for i := range out {
		out[i] = &journaletv1.Snapshot{Actor: messages.Pod(fmt.Sprintf("pod-%03d", i)).Proto(), Handled: barrier,
			State: []byte{byte(i)}}
	}
	return out
}

func TestLoadReturnsNewestCompleteSnapshots(t *testing.T) {
	dir := busDir(t)
	b := openBus(t, dir)
	appendFacts(t, b, 400)
	s := b.Snapshots()
	if at, snaps, err := s.Load(testContext(t)); at != 0 || snaps != nil || err != nil {
		t.Fatalf("without snapshots: %d, %v, %v", at, snaps, err)
	}
	if err := s.Save(testContext(t), 0, nil); err == nil {
		t.Fatal("saved at barrier 0")
	}
	for _, at := range []uint64{9, 100} {
		must.OK(t, s.Save(testContext(t), at, snapshotsOf(300, at)))
	}
	state, err := s.reader.state(testContext(t), snapshotStream)
	if err != nil || state.Msgs != 602 {
		t.Fatalf("%d messages are left, %v", state.Msgs, err)
	}
	// A set without its index does not count, nor one with a missing state.
	js := s.reader.js
	for subject, data := range map[string]string{s.subject(200, "pod.pod-000"): "",
		s.subject(300, indexToken): "\x08\xac\x02\x10\x05", s.subject(300, "pod.pod-000"): ""} {
		if _, err := js.Publish(testContext(t), subject, []byte(data),
			jetstream.WithExpectStream(snapshotStream)); err != nil {
			t.Fatal(err)
		}
	}
	closeBus(t, b)
	s = openBus(t, dir).Snapshots()
	at, snaps, err := s.Load(testContext(t))
	if err != nil || at != 100 || len(snaps) != 300 || snaps[299].GetState()[0] != 299&0xff ||
		snaps[7].GetHandled() != 100 {
		t.Fatalf("%d, %d snapshots, %v", at, len(snaps), err)
	}
	must.OK(t, s.Save(testContext(t), 400, nil))
	if at, snaps, err := s.Load(testContext(t)); at != 400 || len(snaps) != 0 || err != nil {
		t.Fatalf("an empty set: %d, %v, %v", at, snaps, err)
	}
}

// A file of a thousand pods that is read a second time costs no thousand requests.
func TestManifestStoredInThisRunIsPutAtNoCost(t *testing.T) {
	m := openBus(t, busDir(t)).Manifests()
	data := []byte("kind: Pod")
	must.OK(t, m.Put(testContext(t), digestOf(data), data))
	r := m.reader
	m.reader = nil // any request would fail
	must.OK(t, m.Put(testContext(t), digestOf(data), data))
	m.reader = r
	if n, err := m.Collect(testContext(t), []string{digestOf(data)}, 0); n != 1 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	must.OK(t, m.Put(testContext(t), digestOf(data), data))
	if _, err := m.Get(testContext(t), digestOf(data)); err != nil {
		t.Errorf("after its removal and a new Put: %v", err)
	}
}

// A disk that takes milliseconds for a sync would take seconds for a file of a thousand pods.
func TestManyManifestsAreStoredWithOneSync(t *testing.T) {
	b := openBus(t, busDir(t))
	m, syncs := b.Manifests(), 0
	m.blocks.sync = func(path string) error { syncs++; return syncFile(path) }
	all := map[string][]byte{}
	for i := range 3 * putWindow {
		data := fmt.Appendf(nil, "kind: Pod %d", i)
		all[digestOf(data)] = data
	}
	large := bytes.Repeat([]byte("x"), putWindowBytes+1)
	all[digestOf(large)] = large
	there, damaged := []byte("kind: Pod 0"), []byte("kind: Pod 1")
	must.OK(t, m.Put(testContext(t), digestOf(there), there))
	_, err := m.reader.js.Publish(testContext(t), messages.ManifestSubject(m.node, digestOf(damaged)), []byte("kind"))
	must.OK(t, err)
	clear(m.put) // as after a restart
	syncs = 0
	must.OK(t, m.PutAll(testContext(t), maps.All(all)))
	if syncs > 4 { // of the blocks that they fill, and of a block that is not there
		t.Errorf("%d manifests are stored with %d syncs", len(all), syncs)
	}
	for digest, data := range all {
		if got, err := m.Get(testContext(t), digest); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s: %d bytes, %v", digest, len(got), err)
		}
	}
	// Each once, the large one's two distinct parts, and the damaged one before.
	if state, err := m.reader.state(testContext(t), manifestStream); err != nil || int(state.LastSeq) != len(all)+3 {
		t.Errorf("written %d times, %v", state.LastSeq, err)
	}
}
