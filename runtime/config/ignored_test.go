package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/must"
)

// another returns a value that is not a field's default, as JSON; "" if this test knows none.
func another(name string, target field) string {
	structField, _ := reflect.TypeFor[kubeletConfig]().FieldByNameFunc(func(n string) bool {
		f, _ := reflect.TypeFor[kubeletConfig]().FieldByName(n)
		return jsonName(f) == name
	})
	kind := structField.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case kind == reflect.TypeFor[metav1.Duration]():
		return `"7s"`
	case kind.Kind() == reflect.Bool:
		return fmt.Sprint(target.def != "true")
	case kind.Kind() == reflect.String:
		return `"other"`
	case kind.Kind() == reflect.Int32, kind.Kind() == reflect.Int64:
		return "7"
	case kind.Kind() == reflect.Map && kind.Elem().Kind() == reflect.Bool:
		return `{"a": true}`
	case kind.Kind() == reflect.Map:
		return `{"a": "b"}`
	}
	return ""
}

func TestEveryIgnoredFieldWarns(t *testing.T) {
	for name, f := range fields {
		if f.ignored == "" {
			continue
		}
		value := another(name, f)
		if value == "" || !json.Valid([]byte(value)) {
			t.Errorf("%s: this test knows no other value of it", name)
			continue
		}
		file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+name+": "+value+"\n")
		_, problems := mustLoad(t, "--config", file, "--kubeconfig", "/k")
		if len(problems) != 1 || problems[0].Field != name || problems[0].File != file || problems[0].Message != f.ignored {
			t.Errorf("%s: %s: %v", name, value, problems)
		}
	}
}

// withoutEffect are the flags of the kubelet that do nothing here, with a value that asks for something.
func withoutEffect() map[string]string {
	out := map[string]string{"minimum-container-ttl-duration": "1m", "maximum-dead-containers-per-container": "2",
		"maximum-dead-containers": "9"}
	for name := range idleFlags {
		out[name] = "x"
	}
	out["experimental-allocatable-ignore-eviction"] = "true"
	return out
}

func TestEveryFlagWithoutEffectWarns(t *testing.T) {
	for name, value := range withoutEffect() {
		_, problems := mustLoad(t, "--"+name+"="+value)
		if len(problems) != 1 || problems[0].File != "--"+name || !strings.Contains(problems[0].Message, "ignored") {
			t.Errorf("--%s=%s: %v", name, value, problems)
		}
	}
	// Each other flag of the kubelet is one of the agent's own, or sets a field.
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Defaults().AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if value, is := f.Value.(*fieldFlag); is && value.path == "" && withoutEffect()[f.Name] == "" {
			t.Errorf("--%s sets nothing", f.Name)
		}
	})
}

var words = regexp.MustCompile("[a-z][A-Za-z0-9.-]+[*]?")

// namedIn returns which names a text has, also names that a word with an asterisk stands for.
func namedIn(text string, names []string) []string {
	var out []string
	for _, word := range words.FindAllString(text, -1) {
		start, open := strings.CutSuffix(word, "*")
		for _, name := range names {
			top, _, _ := strings.Cut(word, ".")
			if name == word || !open && name == top || open && strings.HasPrefix(name, start) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// column returns the first column of a table's rows, of the table that follows some words.
func column(page, after string) string {
	_, rest, _ := strings.Cut(page, after)
	_, rest, _ = strings.Cut(rest, "|---|---|\n")
	var out []string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		out = append(out, cell)
	}
	return strings.Join(out, "\n")
}

func TestScopeNamesWhatIsHonouredAndWhatIsIgnored(t *testing.T) {
	data, err := os.ReadFile("../../docs/SCOPE.md")
	must.OK(t, err)
	_, page, _ := strings.Cut(string(data), "\n## KubeletConfiguration\n")
	var honoured, ignored, cluster []string
	for name, f := range fields {
		switch {
		case name == "apiVersion" || name == "kind":
		case f.ignored != "":
			ignored = append(ignored, name)
		default:
			honoured = append(honoured, name)
		}
		if f.cluster {
			cluster = append(cluster, name)
		}
	}
	all := slices.Sorted(maps.Keys(fields))
	_, text, _ := strings.Cut(page, "**Honoured:**")
	text, _, _ = strings.Cut(text, "\n\n")
	first, rest, _ := strings.Cut(column(page, "**Ignored, with a warning**"), "\n")
	flags := column(page, "**Flags without effect**")
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"honoured", namedIn(text, all), honoured},
		{"ignored without a cluster", namedIn(first, all), cluster},
		{"ignored", slices.DeleteFunc(namedIn(rest, all), func(s string) bool { return s == "logging" }), ignored},
		{"flags without effect", namedIn(flags, slices.Sorted(maps.Keys(withoutEffect()))),
			slices.Collect(maps.Keys(withoutEffect()))},
	} {
		if slices.Sort(c.want); !slices.Equal(c.got, c.want) {
			for _, name := range c.want {
				if !slices.Contains(c.got, name) {
					t.Errorf("docs/SCOPE.md does not name %s as %s", name, c.what)
				}
			}
			for _, name := range c.got {
				if !slices.Contains(c.want, name) {
					t.Errorf("docs/SCOPE.md names %s as %s, and it is not", name, c.what)
				}
			}
		}
	}
}
