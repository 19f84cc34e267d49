package main

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/journalet/journalet/test/ownmounts"
)

// commandEnv has the test binary run the command line that it gets, as the binary does.
const commandEnv = "JOURNALET_TEST_COMMAND"

// TestMain gives the agents of the tests mounts of their own: volumes with Secrets are in memory.
func TestMain(m *testing.M) {
	if server := os.Getenv(kubectlEnv); server != "" {
		os.Exit(fakeKubectl(server, os.Args[1:]))
	}
	if os.Getenv(commandEnv) != "" {
		os.Exit(execute(context.Background(), "journalet", os.Args[1:], os.Stdout, os.Stderr))
	}
	logLibraries(slog.DiscardHandler)
	os.Exit(ownmounts.Main(m))
}
