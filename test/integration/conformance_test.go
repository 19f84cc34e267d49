//go:build integration

package integration

import (
	"os"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/conformance"
)

func TestConformance(t *testing.T) {
	version, err := setup.Runtime.Version(t.Context(), &cri.VersionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("runtime under test: %s %s", version.GetRuntimeName(), version.GetRuntimeVersion())
	conformance.Run(t, conformance.Env{
		Conn: setup.Runtime.Conn(), Image: testImage(), HasEvents: os.Getenv(eventsVariable) != "no",
		LogDir: func(t *testing.T) string { return t.TempDir() },
	})
}
