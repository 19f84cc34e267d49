package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// Records returns the records of a history, by the path of its file <name>.records.
func Records(t testing.TB, path string) (recs []*journaletv1.Record) {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		rec := &journaletv1.Record{}
		err := protodelim.UnmarshalFrom(in, rec)
		if errors.Is(err, io.EOF) {
			return recs
		}
		must.OK(t, err)
		recs = append(recs, rec)
	}
}

// Manifests returns the manifests beside the records of a history, by digest.
func Manifests(t testing.TB, path string) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile(strings.TrimSuffix(path, ".records") + ".manifests")
	must.OK(t, err)
	var all map[string]json.RawMessage
	must.OK(t, json.Unmarshal(b, &all))
	out := make(map[string][]byte, len(all))
	for digest, manifest := range all {
		out[digest] = manifest
	}
	return out
}
