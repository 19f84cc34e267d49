package config

import (
	"testing"

	"github.com/journalet/journalet/test/promises"
)

// TestConfigurationIsKept lists the fields of KubeletConfiguration that are applied: none may be ignored later.
func TestConfigurationIsKept(t *testing.T) {
	var lines []string
	for name, f := range fields {
		if f.ignored == "" {
			lines = append(lines, "field "+name)
		}
	}
	promises.Keep(t, "configuration", lines)
}
