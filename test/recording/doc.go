// Package recording reads the histories that the simulation has recorded, in test/simulation/testdata/histories, for
// tests of what reads a journal. It is imported by tests alone.
package recording
