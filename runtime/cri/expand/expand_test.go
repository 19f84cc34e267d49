package expand

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

func TestReferencesFollowAPIRules(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "REF": "$(A)"}
	lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	for in, want := range map[string]string{
		"plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$(NONE)": "$(NONE)", "$$(A)": "$(A)", "$$$(A)": "$1",
		"$": "$", "$$": "$", "$(A": "$(A", "$A": "$A", "$(EMPTY)": "", "$(REF)": "$(A)", "$()": "$()", "a$": "a$",
		"$(A$(A)": "$(A$(A)", "$(A$$$(": "$(A$$(", "$(A)$(A": "1$(A", "": "",
	} {
		if got, err := new(Budget).Argument(in, lookup); got != want || err != nil {
			t.Errorf("%q gives %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestTextsLongerThanLinuxTakesAreRefused(t *testing.T) {
	long := strings.Repeat("x", MaxStringBytes)
	lookup := func(string) (string, bool) { return long, true }
	var b Budget
	if _, err := b.Argument("$(A)", lookup); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"$(A)x", "x$(A)", long + "x", "$(A)$(A)"} {
		if _, err := b.Argument(text, lookup); !errors.Is(err, ErrString) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	if _, err := b.Variable("A", long, nil); !errors.Is(err, ErrString) {
		t.Error("a variable and its name: ", err)
	}
	for i := 1; i < MaxTotalBytes/MaxStringBytes; i++ {
		_, err := b.Argument("$(A)", lookup)
		must.OK(t, err)
	}
	if _, err := b.Argument("$(A)", lookup); !errors.Is(err, ErrTotal) {
		t.Error(err)
	}
}

func TestUnclosedReferencesTakeLinearTime(t *testing.T) {
	// With the square of their number, this takes minutes.
	text := strings.Repeat("$(", MaxStringBytes/2)
	var b Budget
	for range 10 {
		got, err := b.Argument(text, func(string) (string, bool) { return "", false })
		if err != nil || got != text {
			t.Fatal(len(got), err)
		}
	}
}

func TestProbeCommandsHaveLiteralValues(t *testing.T) {
	env := []corev1.EnvVar{
		{Name: "A", Value: "$(B)"}, {Name: "B", Value: "1"}, {Name: "C", ValueFrom: &corev1.EnvVarSource{}},
	}
	got, err := Static([]string{"$(A)", "$(B)$(C)", "$(D)"}, env)
	if want := []string{"$(B)", "1", "$(D)"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	env[0].Value = strings.Repeat("x", MaxStringBytes/2)
	command := []string{"echo", "$(A)$(A)$(A)"}
	_, err = Static(command, env)
	if measured := CheckStatic(command, env); !errors.Is(err, ErrString) || fmt.Sprint(err) != fmt.Sprint(measured) {
		t.Errorf("%v, and measured %v", err, measured)
	}
	written := testing.AllocsPerRun(1, func() { _, _ = Static([]string{"$(A)", "$(A)"}, env) })
	measured := testing.AllocsPerRun(1, func() { _ = CheckStatic([]string{"$(A)", "$(A)"}, env) })
	if measured >= written {
		t.Errorf("%v allocations to measure a command, %v to write it", measured, written)
	}
}
