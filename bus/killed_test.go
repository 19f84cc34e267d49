package bus

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func pidText() string { return strconv.Itoa(os.Getpid()) }

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// appendUntilKilled is the process to be killed: it says on its output what was stored.
func appendUntilKilled(t *testing.T, dir string) {
	b := openBus(t, dir)
	b.Journal().OnStored(func(recs []*journaletv1.Record) {
		fmt.Println(recs[len(recs)-1].GetSeq())
	})
	for i := int64(0); ; i++ {
		if err := b.Journal().AppendFact(testContext(t), fact(messages.Pod("p"), i)); err != nil {
			t.Fatal(err)
		}
	}
}

// readNumbers gives the last number on r, once one is at or above enough.
func readNumbers(t *testing.T, r io.Reader, enough uint64) uint64 {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			continue // a word of the test's own
		}
		if n >= enough {
			return n
		}
	}
	t.Fatal("the process ended by itself")
	return 0
}

func rawURL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
