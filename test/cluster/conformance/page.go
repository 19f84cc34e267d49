package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/journalet/journalet/test/cluster"
)

const passed = "passed"

const header = `# Conformance

Kubernetes' own end-to-end tests, release %s, on a cluster whose one node is this agent: the specs of sig-node and
sig-storage that one node can pass and that are for nodes or for conformance. A run of all by ` + "`make conformance`" + `
writes this page. The images are stand-ins, built locally ([test/cluster](../test/cluster/README.md)); the specs are
upstream's, unchanged.

The node: %s.

**%d of %d passed.** The last column has what kubelet 1.36.3 took on a machine of the same size.

`

// writePage writes the page with all results, those that did not pass first.
func writePage(path, version string, results []result) error {
	var b strings.Builder
	fmt.Fprintf(&b, header, cluster.Version, version, count(results), len(results))
	if count(results) < len(results) {
		b.WriteString("| did not pass | result | seconds | first line of the message |\n|---|---|---|---|\n")
		for _, r := range results {
			if r.state != passed {
				fmt.Fprintf(&b, "| %s | %s | %.1f | %s |\n", cell(r.text), r.state, r.took, cell(short(r.why)))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("| spec | result | seconds | kubelet |\n|---|---|---|---|\n")
	for _, r := range results {
		kubelet := "-"
		if r.seconds > 0 {
			kubelet = fmt.Sprintf("%.1f", r.seconds)
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %s |\n", cell(r.text), r.state, r.took, kubelet)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) //nolint:gosec // a document
}

// cell escapes what would end a cell of a table or be formatting.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "[", `\[`).Replace(text)
}

// messageRunes bounds what the page quotes of a message.
const messageRunes = 200

func short(text string) string {
	if r := []rune(text); len(r) > messageRunes {
		return string(r[:messageRunes]) + "…"
	}
	return text
}

func count(results []result) int {
	n := 0
	for _, r := range results {
		if r.state == passed {
			n++
		}
	}
	return n
}

// summary prints what did not pass, and returns an error if there is any.
func summary(w io.Writer, results []result) error {
	seconds := 0.0
	for _, r := range results {
		seconds += r.took
		if r.state != passed {
			fmt.Fprintf(w, "%s: %s\n\t%s\n", strings.ToUpper(r.state), r.text, r.why)
		}
	}
	fmt.Fprintf(w, "%d of %d passed, %.0f s of specs\n", count(results), len(results), seconds)
	if count(results) < len(results) {
		return errors.New("not all specs passed; the logs are in the directory of -out")
	}
	return nil
}
