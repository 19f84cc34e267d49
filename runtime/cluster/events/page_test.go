package events

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// ofConditions are the reasons that are a condition's reason or type, of a pod or of a PodCertificateRequest.
var ofConditions = map[string]bool{"ResizeDeferred": true, "ResizeInfeasible": true, "Denied": true}

// TestPageNamesTheReasonsThatAreSent holds the columns "sent" and "not sent" of docs/DEBUGGING.md to the code: a reason
// that is sent is a string of it.
func TestPageNamesTheReasonsThatAreSent(t *testing.T) {
	const root = "../../.."
	var code strings.Builder
	for _, room := range []string{"actors", "runtime"} {
		must.OK(t, filepath.WalkDir(filepath.Join(root, room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		}))
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/DEBUGGING.md"))
	must.OK(t, err)
	_, table, found := strings.Cut(string(page), "| about | sent | not sent |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !found {
		t.Fatal("docs/DEBUGGING.md has no table of the kubelet's reasons")
	}
	reasons, remarks := regexp.MustCompile("`(\\w+)`"), regexp.MustCompile(`\([^)]*\)`)
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		absent := remarks.ReplaceAllString(cells[3], "")
		for cell, sent := range map[string]bool{cells[2]: true, absent: false} {
			for _, reason := range reasons.FindAllStringSubmatch(cell, -1) {
				written := strings.Contains(code.String(), `"`+reason[1]+`"`) || ofConditions[reason[1]]
				if written != sent {
					t.Errorf("docs/DEBUGGING.md: %s, sent: %v; that is not what the code does", reason[1], sent)
				}
			}
		}
	}
}
