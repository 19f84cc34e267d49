// Package stories plays what operators meet at three in the morning, and holds docs/DEBUGGING.md to it: each file in
// testdata is one story in the form of test/scenario, its journal becomes a bundle, and every command of the page is run
// on that bundle by the real binary. What the page shows is what the command prints.
//
// Start with a story in testdata and its chapter in the page; stories.go reads the page.
package stories
