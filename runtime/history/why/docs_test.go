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
	check = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] || !strings.Contains(of.PkgPath(), "history/why") {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(string(b), "`"+name+"`") {
				t.Errorf("%s.%s: no `%s` in docs/WHY.md", of.Name(), of.Field(i).Name, name)
			}
			check(of.Field(i).Type)
		}
	}
	check(reflect.TypeFor[why.Answer]())
	if len(seen) < 7 {
		t.Errorf("only %d types", len(seen))
	}
}
