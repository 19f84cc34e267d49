// Package fold folds a journal to the states of actors, on the caller's goroutine, without a bus, a clock or I/O. A
// cell (cell.go) handles one actor's records; fold.go is the canonical fold, which recovery, replay and the rebuild of
// one actor share; Cells and Core run all actors in memory, for the simulation and the scenarios. runtime/host runs the
// same cells concurrently. Start with cell.go.
package fold
