package subpath

import (
	"testing"

	"github.com/journalet/journalet/test/ownmounts"
)

func TestMain(m *testing.M) { ownmounts.Main(m) }
