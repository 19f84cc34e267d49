package api

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/must"
)

// buffer is a log of several goroutines.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// The whole of a certificate's way is searched for its keys: the facts, which records and snapshots have of objects,
// the log at its highest level, events, errors, and what the API server gets.
func TestNoKeyLeavesItsVolume(t *testing.T) {
	s := newSigned(t, nil)
	log := &buffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := s.opts
	o.Log = logger
	var mu sync.Mutex
	places := map[string]string{}
	keep := func(where, text string) {
		mu.Lock()
		defer mu.Unlock()
		places[fmt.Sprint(where, " ", len(places))] = text
	}
	store := objects.New(objects.Options{
		RootDir: t.TempDir(), API: New(o), Backing: nothing{}, Log: logger,
		Sink: func(_ context.Context, r *journaletv1.ObjectsRead) error {
			keep("fact", protojson.Format(r))
			raw, err := proto.Marshal(r)
			keep("fact in protobuf", string(raw))
			return err
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = store.Run(ctx) }()
	ref := references.Certificate("tls", 0, s.pod.Spec.Volumes[0].Projected.Sources[0].PodCertificate)
	store.Stored(&journaletv1.Record{Actor: messages.Pod("u").Proto(), Body: &journaletv1.Record_Step{
		Step: &journaletv1.Step{Decisions: []*journaletv1.Event{messages.NewEvent(&journaletv1.ObjectsSet{
			Namespace: "ns", Refs: []*journaletv1.ObjectRef{ref}, Api: true, PodName: "p"})}}}})
	// Every outcome that says something.
	var keys [][]byte
	read := func(not []byte) {
		s.eventually("another certificate", func() bool {
			got, err := store.Certificate(ctx, s.pod, "tls", 0)
			if err != nil {
				keep("error", err.Error())
				return false
			}
			if bytes.Equal(got.Key, not) {
				return false
			}
			keys = append(keys, got.Key)
			return true
		})
	}
	s.pass(pendingAfter)
	r := s.requests(1)[0]
	s.issue(r.Name, "garbage")
	s.passUntil("second request", func() bool { return len(s.list()) == 2 })
	r = s.requests(2)[1]
	s.issue(r.Name, s.chainFor(&r))
	read(nil)
	s.passUntil("renewal", func() bool { return len(s.list()) == 3 })
	s.passUntil("events", func() bool { return len(s.emitted()) == 3 })
	r = s.requests(3)[2]
	s.issue(r.Name, s.chainFor(&r))
	read(keys[0])
	s.passUntil("another renewal", func() bool { return len(s.list()) == 4 })
	s.condition(s.requests(4)[3].Name, "Failed", "Broken", "no")
	s.eventually("end", func() bool { return len(s.emitted()) == 4 })
	cancel()
	<-done

	for _, e := range s.emitted() {
		keep("event", e)
	}
	for _, req := range s.server.Requests("") {
		keep("request", req.HTTP.URL.String()+string(req.Body))
	}
	keep("log", log.String())
	lines := strings.NewReplacer("\n", "", `\n`, "") // as they are, and quoted
	for _, key := range keys {
		block, _ := pem.Decode(key)
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		must.OK(t, err)
		secret, err := private.(*ecdsa.PrivateKey).Bytes() // the number, of P-256
		must.OK(t, err)
		forms := []string{string(secret), hex.EncodeToString(secret), "PRIVATE KEY"}
		for i := range 3 {
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + string(secret)))
			forms = append(forms, text[(i*8+5)/6:(i+len(secret))*8/6])
		}
		if !bytes.Contains(block.Bytes, secret) || len(secret) != 32 {
			t.Fatal("this test searches for nothing")
		}
		for where, text := range places {
			for _, form := range forms {
				if strings.Contains(lines.Replace(text), form) {
					t.Errorf("%s shows a key", where)
				}
			}
		}
	}
	facts := 0
	for where := range places {
		if strings.HasPrefix(where, "fact") {
			facts++
		}
	}
	if facts < 8 || len(keys) != 2 {
		t.Errorf("%d facts of %d keys were searched", facts, len(keys))
	}
}

// nothing is a backing of a node without files.
type nothing struct{}

func (nothing) Watch(objects.Key, string)      {}
func (nothing) WatchLater(objects.Key, string) {}
func (nothing) Unwatch(objects.Key)            {}

func (nothing) Run(ctx context.Context, _ func(map[objects.Key]objects.Object)) error {
	<-ctx.Done()
	return ctx.Err()
}
