//go:build attack

package attack

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/node"
)

var (
	other   = flag.String("attack.program", "", "attack this build of the agent instead of the checkout's")
	realAPI = flag.String("attack.kubeconfig", "", "the administrator's kubeconfig of a cluster that may be harmed: the "+
		"agent joins it where tenants attack; empty: an API server in memory")
	inShort = flag.Bool("attack.short", false, "an attack of each kind, in two minutes, instead of all; without -run")
)

// setup is what all tests share: the program under test and the runtime.
var setup node.Setup

func TestMain(m *testing.M) {
	flag.Parse()
	if *inShort {
		var names []string
		for _, a := range short {
			names = append(names, a.name)
		}
		_ = flag.Set("test.run", "^("+strings.Join(names, "|")+")$") // testing registers it
	}
	code, err := setup.Run(m, node.UpLab)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack tests:", err)
		code = 1
	}
	os.Exit(code)
}
