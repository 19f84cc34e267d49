package bundle

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/test/must"
)

const (
	page   = "../../../docs/BUNDLE.md"
	reader = "testdata/reader/main.go"
)

var update = flag.Bool("bundle.update", false, "write the example and the reader into docs/BUNDLE.md")

// section returns what stands between two comments of the page, and the page with other text there.
func section(t *testing.T, doc, name, replaced string) (is, with string) {
	t.Helper()
	begin := strings.Index(doc, "<!-- "+name+": ")
	end := strings.Index(doc, "<!-- end of the "+name+" -->")
	if begin < 0 || end < begin {
		t.Fatalf("%s has no section %s", page, name)
	}
	begin += strings.Index(doc[begin:], "\n") + 1
	return doc[begin:end], doc[:begin] + replaced + doc[end:]
}

func example(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, &journaletv1.BundleHeader{
		Node: "node-1", Version: "v0.1.0", WrittenAt: timestamppb.New(now), JournalFirst: 1, JournalLast: 1, From: 1, To: 1,
	})
	must.OK(t, err)
	rec := &journaletv1.Record{
		Seq: 1, Epoch: 1, Time: timestamppb.New(now), Actor: messages.Agent.Proto(),
		Body: &journaletv1.Record_Fact{Fact: messages.NewEvent(&journaletv1.AgentStarted{Epoch: 1, Version: "v0.1.0"})},
	}
	b, err := messages.Encode(rec)
	must.OK(t, err)
	must.OK(t, w.Record(b, rec))
	_, err = w.Close(nil, "")
	must.OK(t, err)
	return out.Bytes()
}

func TestExampleAndReaderOfThePageAreTrue(t *testing.T) {
	b, err := os.ReadFile(page)
	must.OK(t, err)
	code, err := os.ReadFile(reader)
	must.OK(t, err)
	doc := string(b)
	for name, want := range map[string]string{
		"example": "\n```\n" + hex.Dump(example(t)) + "```\n\n", "reader": "\n```go\n" + string(code) + "```\n\n",
	} {
		is, with := section(t, doc, name, want)
		if *update {
			doc = with
		} else if is != want {
			t.Errorf("the %s in %s is not what is so: run the test with -bundle.update", name, page)
		}
	}
	if *update {
		must.OK(t, os.WriteFile(page, []byte(doc), 0o600))
	}
}

func TestReaderOfThePageReadsBundles(t *testing.T) {
	r, _ := exported(t, simulated(217), Options{})
	path := filepath.Join(t.TempDir(), "b")
	var out bytes.Buffer
	_, err := Export(t.Context(), r, &out, Options{})
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, out.Bytes(), 0o600))
	want := "the index is whole: true\n"
	must.OK(t, r.Read(t.Context(), 0, 0, func(e history.Entry) error {
		want += fmt.Sprintf("record %d: %d bytes, SHA-256 %x\n", e.Seq, len(e.Bytes), sumOf(e.Bytes))
		return nil
	}))
	want += "error: <nil>\n"
	got, err := exec.CommandContext(t.Context(), "go", "run", reader, path).CombinedOutput()
	if err != nil || string(got) != want {
		t.Errorf("%v\n%.2000s", err, got)
	}
}
