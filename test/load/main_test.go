package load

import (
	"flag"
	"fmt"
	"os"
	"testing"

	testnode "github.com/journalet/journalet/test/node"
)

// program is the agent's, built for these tests unless it is given.
var program string

func TestMain(m *testing.M) {
	flag.StringVar(&program, "program", "", "path of the agent's program, to measure another one than this checkout's")
	flag.Parse()
	dir, err := os.MkdirTemp("", "load-bin")
	if err == nil && program == "" {
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
