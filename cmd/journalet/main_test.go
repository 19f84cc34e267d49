package main

import (
	"testing"

	"github.com/journalet/journalet/test/ownmounts"
)

// TestMain gives the agents of the tests mounts of their own: volumes with Secrets are in memory.
func TestMain(m *testing.M) { ownmounts.Main(m) }
