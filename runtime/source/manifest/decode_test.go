package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
)

// TestManifests runs the manifests in testdata. Commands, each with a manifest below it:
//
//	decode     pods with their positions, then warnings, then problems
//	canonical  the same, and each pod's canonical bytes, indented
//	classes    runtime classes for the rest of the file, then problems
//	objects    the objects beside pods, then problems; "not parsed" if the file's objects are unknown
//
// with the arguments path, node, source, max-bytes and tokens, for Options. <tab> in a manifest means a tab.
func TestManifests(t *testing.T) {
	datadriven.Walk(t, "testdata/manifests", func(t *testing.T, file string) {
		var classes *Classes
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			path, node, source, maxBytes := "pod.yaml", "node1", "", 0
			d.MaybeScanArgs(t, "path", &path)
			d.MaybeScanArgs(t, "node", &node)
			d.MaybeScanArgs(t, "source", &source)
			d.MaybeScanArgs(t, "max-bytes", &maxBytes)
			tokens := ""
			d.MaybeScanArgs(t, "tokens", &tokens)
			input := strings.ReplaceAll(d.Input, "<tab>", "\t")
			var out strings.Builder
			if d.Cmd == "classes" {
				all, problems := DecodeRuntimeClasses(path, []byte(input))
				classes, _ = NewClasses(all)
				for _, name := range classes.Names() {
					fmt.Fprintf(&out, "class %s handler=%s\n", name, classes.byName[name].Handler)
				}
				for _, p := range problems {
					fmt.Fprintf(&out, "[%s] %s\n", p.Code, p.Error())
				}
				return out.String()
			}
			if d.Cmd == "objects" {
				return showObjects(path, input)
			}
			pods, problems := Decode(path, []byte(input), Options{
				NodeName: node, Source: Source(source), MaxBytes: int64(maxBytes), Classes: classes,
				HasToken: func(namespace, account string) bool { return tokens == namespace+"/"+account },
			})
			for _, p := range pods {
				fmt.Fprintf(&out, "pod %s/%s index=%d line=%d uid=%s\n", p.Pod.Namespace, p.Pod.Name, p.Index, p.Line, p.Pod.UID)
				for _, w := range p.Warnings {
					fmt.Fprintf(&out, "  warning: %s\n", w)
				}
				if d.Cmd == "canonical" {
					var indented bytes.Buffer
					if err := json.Indent(&indented, p.Canonical, "", " "); err != nil {
						t.Fatal(err)
					}
					out.WriteString(indented.String() + "\n")
				}
			}
			for _, p := range problems {
				fmt.Fprintf(&out, "[%s] %s\n", p.Code, p.Error())
			}
			return out.String()
		})
	})
}

func showObjects(path, input string) string {
	var out strings.Builder
	found, problems, ok := DecodeObjects(path, []byte(input))
	if !ok {
		out.WriteString("not parsed\n")
	}
	for _, o := range found {
		fmt.Fprintf(&out, "%s %s/%s line=%d", o.Kind, o.Namespace, o.Name, o.Line)
		switch v := o.Value.(type) {
		case *corev1.ConfigMap:
			fmt.Fprintf(&out, " %q %q", v.Data, v.BinaryData)
		case *corev1.Secret:
			fmt.Fprintf(&out, " %s %q", v.Type, v.Data)
		case nil:
			fmt.Fprintf(&out, " broken: %s", o.Problem)
		}
		out.WriteString("\n")
	}
	for _, p := range problems {
		fmt.Fprintf(&out, "[%s] %s\n", p.Code, p.Error())
	}
	return out.String()
}
