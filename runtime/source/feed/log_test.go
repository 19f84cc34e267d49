package feed

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/source/manifest"
)

func TestPodIsLoggedOnceWithTheNumberOfItsProblems(t *testing.T) {
	const text = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: prod}
spec: {containers: [{name: UPPER}, {name: b}, {name: c}]}
---
apiVersion: v1
kind: Service
---
apiVersion: v1
kind: Node
`
	var log bytes.Buffer
	s := &Sender{Log: slog.New(slog.NewTextHandler(&log, nil))}
	file, _ := Decode("p.yaml", "/p.yaml", []byte(text), manifest.Options{NodeName: "n1"})
	s.log(File{ManifestFile: file})
	logged := log.String()
	if n := strings.Count(logged, "pod=prod/web"); n != 1 || !strings.Contains(logged, "4 problems, the first") {
		t.Errorf("%d lines for the pod:\n%s", n, logged)
	}
	if n := strings.Count(logged, `pod=""`); n != 2 {
		t.Errorf("%d lines for the other objects, want 2:\n%s", n, logged)
	}
}
