package disk

import (
	"os"
	"testing"

	"github.com/journalet/journalet/test/ownmounts"
)

func TestMain(m *testing.M) { os.Exit(ownmounts.Main(m)) }
