// Package clean is the door that every fact passes on its way into the journal: Fact makes each of its strings one that
// a record can hold. What may be in a string is declared in fields.go, for each field of each fact; a test fails for a
// field without a declaration. ADR 077 has the reasons. The package is pure. Start with fact.go.
package clean
