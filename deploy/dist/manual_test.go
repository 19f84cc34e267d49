package main

import "testing"

func TestManPageOfACommand(t *testing.T) {
	list := []command{
		{Path: "journalet", Usage: "journalet [flags]", Short: "An agent"},
		{
			Path: "journalet journal", Usage: "journalet journal FILE [flags]", Short: "Read the journal",
			Aliases: []string{"j"},
			Long: "Read it with `journalet journal --all`.\n.dots and 'quotes' begin lines, C:\\path has a backslash.\n\n" +
				"Exit codes:\n  0  success\n  1  an error",
			Example: "  journalet journal a.bin\n  journalet journal b.bin",
			Flags:   []struct{ Flag, Usage string }{{"-a, --all", "everything"}},
		},
		{Path: "journalet journal export", Usage: "journalet journal export", Short: "Export"},
		{Path: "journalet other", Usage: "journalet other", Short: "Other"},
	}
	pages := manual(list, "v0.2.0-rc.1", someDate)
	if len(pages) != len(list) {
		t.Errorf("%d pages, want %d", len(pages), len(list))
	}
	compare(t, "page.txt", string(pages["journalet-journal.1"]))
}
