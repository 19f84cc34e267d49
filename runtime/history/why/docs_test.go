package why_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
)

// TestFieldsOfAnswersAreDocumented finds every field of an answer in docs/WHY.md.
func TestFieldsOfAnswersAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../docs/WHY.md")
	must.OK(t, err)
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || !strings.Contains(typ.PkgPath(), "history/why") {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(string(b), "`"+name+"`") {
				t.Errorf("%s.%s: no `%s` in docs/WHY.md", typ.Name(), typ.Field(i).Name, name)
			}
			check(typ.Field(i).Type)
		}
	}
	check(reflect.TypeFor[why.Answer]())
	if len(seen) < 7 {
		t.Errorf("only %d types", len(seen))
	}
}
