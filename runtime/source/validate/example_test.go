package validate_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/source/validate"
)

// What the agent would report about a manifest, without a node.
func Example() {
	file := validate.ReadFrom(strings.NewReader(`
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: web
    image: registry.example.com/web:1
    imagePullPolice: Always
`), "web.yaml")
	result := validate.Check(context.Background(), []validate.File{file},
		validate.Options{Manifest: manifest.Options{NodeName: "node-1"}})
	for _, f := range result.Findings {
		fmt.Printf("%s:%d: %s: %s: %s\n", f.Path, f.Line, f.Level, f.Field, f.Message)
	}
	// Output:
	// web.yaml:10: error: spec.containers[0].imagePullPolice: no such field
}
