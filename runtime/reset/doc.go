// Package reset takes everything of one agent off a node whose agent does not run: `journalet reset`. It finds what is
// there (find.go), without a journal too, and removes it in an order that lets an interrupted reset be repeated
// (remove.go): pods by priority, then what they share, then the journal, since a further reset knows the pods by it. It
// decides about nothing but its order: the mark and the directory of an object show whether it is the agent's. What
// others own stays. Start with Find.
package reset
