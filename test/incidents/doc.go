// Package incidents plays what operators meet at three in the morning, and holds docs/DEBUGGING.md and docs/UPGRADE.md
// to it: each file in testdata is one incident in the form of test/scenario, its journal becomes a bundle, and the real
// binary runs every command of the pages on it. What a page shows is what the command prints.
//
// Start with an incident in testdata and its chapter in the page; page.go reads the page.
package incidents
