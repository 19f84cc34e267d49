package bounded

import (
	"bytes"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// maxTOMLValues bounds the characters that begin a value or a level in TOML, also within strings: the decoder calls
// itself for each level, and a value takes some 500 bytes. containerd's whole configuration has 2000.
const maxTOMLValues = 20_000

// TOML decodes at most limit bytes of TOML into a value.
func TOML(data []byte, limit int, into any) error {
	if len(data) > limit {
		return &tooLarge{int64(limit)}
	}
	values := 0
	for _, mark := range []string{"=", ",", "[", "{", "."} {
		values += bytes.Count(data, []byte(mark))
	}
	if values > maxTOMLValues {
		return fmt.Errorf("more than %d characters with which a value begins; shorten it", maxTOMLValues)
	}
	return toml.Unmarshal(data, into)
}
