package preflight

import (
	"fmt"
	"strings"
	"testing"
)

func TestFilesOfObjectsAreChecked(t *testing.T) {
	m := testMachine(t)
	if got := m.objects(t.Context()); len(got) > 0 {
		t.Errorf("not configured: %v", got)
	}
	m.cfg.ObjectsPath = "/etc/journalet/objects"
	m.cfg.ServiceAccountTokenFiles = map[string]string{"default/robot": "/etc/journalet/robot.token"}
	wants := func(want ...string) {
		t.Helper()
		got := m.objects(t.Context())
		if len(got) != len(want) {
			t.Fatalf("got %v, want %q", got, want)
		}
		for i, c := range got {
			text := fmt.Sprint(c.Status, " ", c.Message)
			if !strings.Contains(text, want[i]) || strings.Contains(text, "hunter2") {
				t.Errorf("got %s, want %s", text, want[i])
			}
		}
	}
	const token = "warn no file /etc/journalet/robot.token with the token of service account default/robot"
	wants("warn /etc/journalet/objects does not exist", token)
	const head = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: "
	m.write(t, "etc/journalet/objects/a.yaml", head+"{k: hunter2}\n")
	m.write(t, "etc/journalet/robot.token", "hunter2")
	wants("ok /etc/journalet/objects holds Secret: 1")
	m.write(t, "etc/journalet/objects/a.yaml", head+"[hunter2]\n")
	wants("a.yaml:4: stringData: wants a mapping, found a list")
}
