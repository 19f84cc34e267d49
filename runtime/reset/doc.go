// Package reset takes everything of one agent off a node whose agent does not run: `journalet reset`. It finds what is
// there (find.go), without a journal too, and removes it in an order in which a reset that was interrupted can be
// repeated (remove.go): pods by priority, then what they share, then the journal, by which a further reset knows the
// pods. It decides about nothing but its order: which objects are the agent's, their mark and their directory say. What
// others own stays. Start with Find.
package reset
