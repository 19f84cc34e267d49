package oracle

import (
	"flag"
	"testing"

	"github.com/journalet/journalet/test/corpus"
)

var corpusDir = flag.String("oracle.corpus", "../corpus/testdata", "a directory of manifests to compare")

// TestCorpusIsDecodedAsByTheKubelet compares defaults and validation of the pods of a directory that others wrote.
func TestCorpusIsDecodedAsByTheKubelet(t *testing.T) {
	files, err := corpus.Read(*corpusDir)
	must(t, err)
	if len(files) == 0 {
		t.Fatalf("%s has no manifests: name a directory with -oracle.corpus", *corpusDir)
	}
	c := comparer{name: "decode", compare: compareDecode}
	tally := newTally(c)
	for _, f := range files {
		for _, doc := range f.Pods() {
			c.do(&testCase{name: f.Name, text: string(doc), tally: tally})
			tally.cases++
		}
	}
	t.Log(tally.summary(known))
	for _, text := range tally.unknown(c, known) {
		t.Error(text)
	}
}
