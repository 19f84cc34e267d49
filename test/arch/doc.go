// Package arch checks the rules of the house that a compiler does not: who may import whom, what a decider may not
// call, how long a function gets, that every package says what it is for. It reads source and never changes it, and it
// is imported by nobody. A rule that this package does not check is a wish. Start reading at arch_test.go, which holds
// the repository to the rules; checker_test.go shows each rule refusing what it should; imports.go is the import table.
package arch
