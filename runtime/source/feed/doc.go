// Package feed is shared by the drivers of all sources. It turns the content of a file or of a URL's response into a
// bounded fact, stores its pods, and reports whether the fact changes the source's state. It reads no files and decides
// nothing. Start with Decode in decode.go; recorded.go has the state that the journal records.
package feed
