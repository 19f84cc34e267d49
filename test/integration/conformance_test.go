//go:build integration

package integration

import (
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/conformance"
)

// The runtime under test and the image in it. The image must be there already: no registry is asked.
const (
	endpointVariable = "JOURNALET_TEST_CRI_ENDPOINT"
	imageVariable    = "JOURNALET_TEST_IMAGE"
	eventsVariable   = "JOURNALET_TEST_CRI_EVENTS" // "no" for a runtime without GetContainerEvents (containerd 1.6)
	defaultImage     = "docker.io/library/busybox:1.36"
	maxMessageBytes  = 16 << 20 // the kubelet's limit for CRI messages
)

func TestConformance(t *testing.T) {
	endpoint := os.Getenv(endpointVariable)
	if endpoint == "" {
		t.Fatalf("%s is empty: set it to the CRI socket of a running containerd, for example what deploy/lab/lab.sh endpoint prints", endpointVariable)
	}
	image := os.Getenv(imageVariable)
	if image == "" {
		image = defaultImage
	}
	if endpoint[0] == '/' {
		endpoint = "unix://" + endpoint
	}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		t.Fatalf("%s=%s: %v", endpointVariable, endpoint, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	version, err := cri.NewRuntimeServiceClient(conn).Version(t.Context(), &cri.VersionRequest{})
	if err != nil {
		t.Fatalf("no CRI runtime answers at %s (%s): %v", endpoint, endpointVariable, err)
	}
	t.Logf("runtime under test: %s %s", version.GetRuntimeName(), version.GetRuntimeVersion())
	conformance.Run(t, conformance.Env{
		Conn: conn, Image: image, HasEvents: os.Getenv(eventsVariable) != "no",
		LogDir: func(t *testing.T) string { return t.TempDir() },
	})
}
