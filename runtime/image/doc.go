// Package image observes the images on the node: which there are, whether containers use them, and whether their file
// system is full (ADR 047). It reports only what has changed and decides nothing: the image actor does. What a runtime
// returns is bounded here, since it is recorded. Start with driver.go.
package image
