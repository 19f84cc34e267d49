package main

import (
	"strings"
	"testing"
)

func TestAdoptSaysWhatItNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"without --check":      {nil, exitUsage, "needs --check"},
		"flags beside another": {[]string{"--check", "--from-kubelet", "--v=3"}, exitUsage, "leave out --v"},
		"no kubelet's directory": {[]string{"--check", "--root-dir", t.TempDir()}, exitError,
			"is not the root directory of a kubelet: it has no file cpu_manager_state"},
		"the simulated runtime": {[]string{"--check", "--container-runtime-endpoint", "sim://"}, exitError,
			"no kubelet uses the simulated runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, text := run(t.Context(), append([]string{"adopt"}, test.args...)...)
			if code != test.code || !strings.Contains(text, test.says) {
				t.Errorf("exit code %d: %s", code, text)
			}
		})
	}
}

func TestHandbackSaysWhatItNeeds(t *testing.T) {
	for _, flags := range [][]string{nil, {"--check"}} {
		code, _, text := run(t.Context(), append([]string{"handback", "--root-dir", t.TempDir()}, flags...)...)
		if code != exitError || !strings.Contains(text, "is not the root directory of a kubelet") {
			t.Errorf("%v: exit code %d: %s", flags, code, text)
		}
	}
}
