// Package arch checks the rules of the house that a compiler does not: who may import whom, what a decider may not
// call, how long a function gets, that every package says what it is for. It reads source and never changes it, and it
// is imported by its lister alone. A rule that this package does not check is a wish. Start reading at rules.go, which
// names them all; testdata/violations.txtar shows what each refuses and allows; imports.go is the import table.
package arch
