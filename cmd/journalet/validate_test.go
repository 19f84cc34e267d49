package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// manifests writes files into a new working directory, by name.
func manifests(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		must.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.OK(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

const (
	goodPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: web, image: nginx}]\n"
	badPod  = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  containers:\n" +
		"  - {name: a, image: nginx, imagee: x}\n" +
		"  - {name: b, image: nginx, stdinOnce: true, imagee: x}\n"
	warnedPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: warned}\nspec:\n" +
		"  schedulerName: mine\n  containers: [{name: web, image: nginx}]\n"
	secretPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: secret}\nspec:\n  containers:\n" +
		"  - {name: c, image: nginx, envFrom: [{secretRef: {name: login}}]}\n"
)

func TestValidateExitCodes(t *testing.T) {
	manifests(t, map[string]string{
		"good/web.yaml": goodPod, "bad/bad.yaml": badPod, "warned/w.yaml": warnedPod, "secret/s.yaml": secretPod,
		"objects/o.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: login}\n",
		"account/a.yaml": strings.Replace(goodPod, "spec:\n", "spec:\n  serviceAccountName: robot\n", 1),
		"config.yaml":    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: bad\n",
	})
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"good", exitOK, "1 file, 1 pod accepted: 0 errors, 0 warnings, 0 notes\n"},
		{"bad", exitError, "bad/bad.yaml:6: error: spec.containers[0].imagee: no such field; write image if you meant it, " +
			"or remove it (and on line 7)\n1 file, 0 pods accepted: 2 errors"},
		{"bad --all", exitError, "bad/bad.yaml:7: error: spec.containers[1].imagee"},
		{"good bad", exitError, "2 files, 1 pod accepted: 2 errors"},
		{"warned", exitOK, "warned/w.yaml:5: warning: spec.schedulerName: "},
		{"warned --strict", exitError, "1 warning"},
		{"secret --strict", exitOK, "0 notes"},
		{"secret --objects-path objects --strict", exitOK, "secret/s.yaml:1: note: no file has the Secret default/login"},
		{"account", exitError, "no token of service account default/robot"},
		{"account --service-account-token-file default/robot=token", exitOK, "1 pod accepted"},
		{"--static-pod-path bad", exitError, "bad.yaml:6: error"},
		{"--config config.yaml", exitError, "bad.yaml:6: error"},
		{"missing", exitNotFound, "missing does not exist"},
		{"good --objects-path missing", exitNotFound, "missing does not exist"},
		{"good -o table", exitUsage, "want text, json, yaml, sarif"},
		{"good --max-pods -1", exitUsage, "max-pods"},
	} {
		code, out, errs := run(t.Context(), append([]string{"validate"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}

func TestValidateReadsTheStandardInput(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	old := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = old }()
	_, err = w.WriteString(badPod)
	must.OK(t, err)
	must.OK(t, w.Close())
	code, out, errs := run(t.Context(), "validate", "-", "-o", "json")
	var got struct {
		Errors   int
		Findings []struct{ Path, Field, Code, Level string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitError || got.Errors != 2 ||
		got.Findings[0].Path != "stdin" || got.Findings[0].Code != "unknown-field" || got.Findings[0].Level != "error" {
		t.Errorf("%d, %v, %+v\n%s%s", code, err, got, out, errs)
	}
}

// What the standard asks of a log: each result has a rule of the list, a level, a text, and a place with a URI.
func TestValidateWritesSARIF(t *testing.T) {
	manifests(t, map[string]string{"my pods/bad.yaml": badPod, "warned.yaml": warnedPod})
	dir, err := os.Getwd()
	must.OK(t, err)
	code, out, _ := run(t.Context(), "validate", filepath.Join(dir, "my pods"), "warned.yaml", "-o", "sarif")
	var log sarifLog
	if err := json.Unmarshal([]byte(out), &log); err != nil || code != exitError || log.Version != "2.1.0" ||
		len(log.Runs) != 1 {
		t.Fatalf("%d, %v\n%s", code, err, out)
	}
	run := log.Runs[0]
	var uris []string
	for _, r := range run.Results {
		at := r.Locations[0].Physical
		uris = append(uris, at.Artifact.URI)
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || at.Region.StartLine < 1 ||
			!strings.Contains("error warning note", r.Level) {
			t.Errorf("%+v", r)
		}
	}
	if got := strings.Join(uris, " "); got != "my%20pods/bad.yaml my%20pods/bad.yaml warned.yaml" {
		t.Errorf("places %s", got)
	}
	if code, out, _ := execSARIF(t, "/dev/null"); code != exitError || !strings.Contains(out, "file:///dev/null") {
		t.Errorf("a path elsewhere: %d, %s", code, out)
	}
}

func execSARIF(t *testing.T, path string) (int, string, string) {
	t.Helper()
	return run(t.Context(), "validate", path, "-o", "sarif")
}
