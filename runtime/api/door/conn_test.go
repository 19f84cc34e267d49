package door

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

// A handler whose client did not read must return: net/http closes a connection of TLS with another write.
func TestNothingIsWrittenAfterAWriteThatWasLate(t *testing.T) {
	server, client := net.Pipe()
	c := new(Conns).Add(server, func() {})
	t.Cleanup(func() { _, _ = c.Close(), client.Close() })
	must.OK(t, c.SetWriteDeadline(time.Unix(1, 0)))
	if _, err := c.Write([]byte("page")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a write after its deadline: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, client) }() // it reads again
	must.OK(t, c.SetWriteDeadline(time.Time{}))
	if n, err := c.Write([]byte("end")); !errors.Is(err, os.ErrDeadlineExceeded) || n > 0 {
		t.Errorf("the next write: %d bytes, %v", n, err)
	}
}
