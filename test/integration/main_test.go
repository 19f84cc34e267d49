//go:build integration

package integration

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/node"
)

// atOnce bounds the tests that run in parallel. Most of a test's time is waiting for pods, not CPU.
const atOnce = "4"

// The runtime under test, and its image. The image must be present: no test pulls it.
const (
	endpointVariable = "JOURNALET_TEST_CRI_ENDPOINT"
	imageVariable    = "JOURNALET_TEST_IMAGE"
	eventsVariable   = "JOURNALET_TEST_CRI_EVENTS" // "no": a runtime without GetContainerEvents (containerd 1.6)
)

// setup is what all tests share.
var setup node.Setup

func TestMain(m *testing.M) {
	if err := fakecsi.RunIfDriver(); err != nil {
		fmt.Fprintln(os.Stderr, "CSI driver:", err)
		os.Exit(1)
	}
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration tests:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	if !given("test.parallel") {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			return 0, err
		}
	}
	return setup.Run(m, func() (string, error) {
		endpoint := os.Getenv(endpointVariable)
		if endpoint == "" {
			return "", fmt.Errorf("%s is empty: set it to the CRI socket of a running containerd, for example to the output "+
				"of deploy/lab/lab.sh endpoint", endpointVariable)
		}
		return endpoint, nil
	})
}

func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// testImage returns the image of most pods.
func testImage() string {
	if image := os.Getenv(imageVariable); image != "" {
		return image
	}
	return node.Image
}
