//go:build attack

package attack

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/journalet/journalet/test/node"
)

var other = flag.String("attack.program", "", "attack this build of the agent instead of the checkout's")

// setup is what all tests share: the program under test and the runtime.
var setup node.Setup

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := setup.Run(m, node.UpLab)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack tests:", err)
		code = 1
	}
	os.Exit(code)
}
