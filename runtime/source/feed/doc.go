// Package feed is what the drivers of all sources do alike with what one file, or one answer of a URL, holds: make a
// fact of it that is bounded, keep its pods, and tell whether the fact would change anything. It reads nothing itself and
// decides nothing. Start with Decode in decode.go; what was told before is in recorded.go.
package feed
