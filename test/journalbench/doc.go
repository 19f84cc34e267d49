// Command journalbench measures what reads a journal: a large one of a simulated node, which it writes once as a store
// and as a bundle, and keeps. `make bench-journal` runs it. To measure something more, add a row to rows in a file of
// its own.
package main
