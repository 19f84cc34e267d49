// Package retention keeps the journal within its bounds of age and size: it takes snapshots, cuts the records before
// them, and removes manifests that nothing names any more. Start at Driver.
package retention
