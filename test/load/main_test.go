package load

import (
	"fmt"
	"os"
	"testing"

	testnode "github.com/journalet/journalet/test/node"
)

// program is the agent's, built for these tests.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "load-bin")
	if err == nil {
		program, err = testnode.Build(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "load tests:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir) // a temporary directory
	os.Exit(code)
}
