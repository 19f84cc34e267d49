package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// choice is what the commands of a lab run on, and then what `up` says of it.
const choice = `choose_runtime; chosen=$LAB_RUNTIME; keep_runtime; echo "$chosen"`

func TestALabKeepsTheRuntimeItWasCreatedWith(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, variant, requested string
		want, refused                string // the runtime, or a part of the error
	}{
		"a new one":            {want: "containerd"},
		"a new one, requested": {requested: "crio", want: "crio"},
		"an unknown one":       {requested: "docker", refused: "is none of"},
		"by default":           {recorded: "crio", want: "crio"},
		"named once more":      {recorded: "crio", requested: "crio", want: "crio"},
		"another":              {recorded: "crio", requested: "containerd", refused: "created with LAB_RUNTIME=crio"},
		"not containerd":       {recorded: "containerd", requested: "crio", refused: "created with LAB_RUNTIME=containerd"},
		"before the choice":    {variant: "built", requested: "crio", refused: "created with LAB_RUNTIME=containerd"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for file, text := range map[string]string{"runtime": c.recorded, "variant": c.variant} {
				if text != "" {
					must.OK(t, os.WriteFile(filepath.Join(m.lab, file), []byte(text+"\n"), 0o600))
				}
			}
			got, ok := m.run(t, choice, "LAB_RUNTIME="+c.requested)
			if ok && (c.refused != "" || got != c.want) || !ok && (c.refused == "" || !strings.Contains(got, c.refused)) {
				t.Errorf("LAB_RUNTIME=%s: %q (%v), want %q%q", c.requested, got, ok, c.want, c.refused)
			}
		})
	}
}

// What endpoint, status and down find does not hang on what the shell asks for.
func TestCommandsFindTheRuntimeThatWasRecorded(t *testing.T) {
	m := newMachine(t)
	if got, ok := m.run(t, `choose_runtime; record_runtime; echo "$LAB_RUNTIME"`,
		"LAB_RUNTIME=crio"); !ok || got != "crio" {
		t.Fatalf("recorded: %q (%v), want crio", got, ok)
	}
	for _, requested := range []string{"", "containerd", "crio"} {
		if got, ok := m.run(t, `choose_runtime; echo "$LAB_RUNTIME"`, "LAB_RUNTIME="+requested); !ok || got != "crio" {
			t.Errorf("LAB_RUNTIME=%s: %q (%v), want crio", requested, got, ok)
		}
	}
}

// `git clean` deletes the record of a lab that runs.
func TestRuntimeThatRunsIsFoundWithoutARecord(t *testing.T) {
	m := newMachine(t)
	shell, err := exec.LookPath("bash")
	must.OK(t, err)
	program := filepath.Join(m.lab, "crio")
	must.OK(t, os.Symlink(shell, program))
	cmd := exec.CommandContext(t.Context(), program, "-c", "read -r line", filepath.Join(m.lab, "crio.conf"))
	ends, err := cmd.StdinPipe() // it runs until this is closed
	must.OK(t, err)
	must.OK(t, cmd.Start())
	if got, ok := m.run(t, `choose_runtime; echo "$LAB_RUNTIME"`); !ok || got != "crio" {
		t.Errorf("%q (%v), want crio", got, ok)
	}
	must.OK(t, ends.Close())
	_ = cmd.Wait() // its line never came
}

// CRI-O writes the specification of a pod with lines and spaces, and those of its containers without.
func TestOOMScoreThatIsRefusedIsNotRequested(t *testing.T) {
	template, err := os.ReadFile("config/runc-restricted.in")
	must.OK(t, err)
	script := filepath.Join(t.TempDir(), "runc")
	must.OK(t, os.WriteFile(script, []byte(strings.ReplaceAll(string(template), "@RUNC@", "echo runs")), 0o755))
	for given, want := range map[string]string{
		`{"oomScoreAdj":-998}`:          `{"oomScoreAdj":0}`,
		"{\n  \"oomScoreAdj\": -998\n}": "{\n  \"oomScoreAdj\":0\n}",
		`{"oomScoreAdj":1000}`:          `{"oomScoreAdj":1000}`,
	} {
		bundle := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(bundle, "config.json"), []byte(given), 0o600))
		out, err := exec.Command("sh", script, "--root", "/r", "create", "--bundle", bundle, "x y").Output()
		must.OK(t, err)
		if got := strings.TrimSpace(string(out)); got != "runs --root /r create --bundle "+bundle+" x y" {
			t.Errorf("it runs %q", got)
		}
		b, err := os.ReadFile(filepath.Join(bundle, "config.json"))
		must.OK(t, err)
		own, err := os.ReadFile("/proc/self/oom_score_adj")
		must.OK(t, err)
		want = strings.ReplaceAll(want, ":0", ":"+strings.TrimSpace(string(own)))
		if string(b) != want {
			t.Errorf("%s became %s, want %s", given, b, want)
		}
	}
}
