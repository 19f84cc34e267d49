// Package kind says what an event means to a person: what it is about, and how much it matters. It reads the options
// that the contract has at each kind of event (proto/journalet/v1/kind.proto), and decides by the content where these
// say so. It sees one event at a time and knows nothing of what was before. Start with kind.go; content.go has what the
// content decides.
package kind
