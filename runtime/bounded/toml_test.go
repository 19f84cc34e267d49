package bounded

import (
	"errors"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestTOMLIsDecoded(t *testing.T) {
	var got struct {
		Imports []string                  `toml:"imports"`
		Plugins map[string]map[string]any `toml:"plugins"`
	}
	must.OK(t, TOML([]byte("imports = ['a', \"b\"]\nplugins.'x.y'.z = \"1s\"\n[plugins.w]\nv = {a = 1}\n"), 100, &got))
	if len(got.Imports) != 2 || got.Plugins["x.y"]["z"] != "1s" || len(got.Plugins["w"]) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestTOMLBeyondABoundIsRefusedBeforeItIsDecoded(t *testing.T) {
	for name, text := range map[string]string{
		"deep arrays":  "a = " + strings.Repeat("[", 100_000),
		"deep tables":  strings.Repeat("{a=", 100_000),
		"dotted keys":  strings.Repeat("a.", 100_000) + "a = 1",
		"many keys":    strings.Repeat("a=1\n", 100_000),
		"many headers": strings.Repeat("[[a]]\n", 100_000),
	} {
		var into map[string]any
		if err := TOML([]byte(text), 1<<20, &into); err == nil || !strings.Contains(err.Error(), "more than 20000") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var into map[string]any
	if err := TOML([]byte("a = 1"), 4, &into); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"levels within the bound": "a = " + strings.Repeat("[", maxTOMLValues-1),
		"keys within the bound":   strings.Repeat("a.", maxTOMLValues-1) + "a = ",
		"not text":                "\x00\xff=\x01",
		"a key twice":             "a = 1\na = 2",
	} {
		if err := TOML([]byte(text), 1<<20, &into); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
}
