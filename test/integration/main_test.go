//go:build integration

package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// atOnce is how many tests run side by side: most of a test's time is a pod's own, not the machine's.
	atOnce = "4"
	// buildTimeout bounds the build of the agent with a cold cache.
	buildTimeout = 10 * time.Minute
	// reachTimeout bounds the first question to the runtime.
	reachTimeout = 10 * time.Second
)

// What all tests share: the program under test and the runtime.
var (
	binary   string
	endpoint string
	runtime  cri.RuntimeServiceClient
	images   cri.ImageServiceClient
)

func TestMain(m *testing.M) {
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
	dir, err := os.MkdirTemp("", "jl-bin-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the temporary folder
	binary = filepath.Join(dir, "journalet")
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/journalet/journalet/cmd/journalet").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	conn, err := reach(os.Getenv(endpointVariable))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return m.Run(), nil
}

func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// reach connects to the runtime and asks it something, so that a run without one fails at once.
func reach(value string) (*grpc.ClientConn, error) {
	if value == "" {
		return nil, fmt.Errorf("%s is empty: set it to the CRI socket of a running containerd, for example what deploy/lab/lab.sh endpoint prints", endpointVariable)
	}
	if value[0] == '/' {
		value = "unix://" + value
	}
	endpoint = value
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", endpointVariable, endpoint, err)
	}
	runtime, images = cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	if _, err := runtime.Version(ctx, &cri.VersionRequest{}); err != nil {
		return nil, fmt.Errorf("no CRI runtime answers at %s (%s): %w", endpoint, endpointVariable, err)
	}
	return conn, nil
}

// socketPath is the runtime's socket as a path.
func socketPath() string { return strings.TrimPrefix(endpoint, "unix://") }
