// Package timeline draws a pod or a node from its journal: a Timeline of lanes with spans and events, which Text draws
// for a terminal and HTML as one page that needs no network.
//
// It folds records on its own and holds no state of actors, so a picture shows what was recorded, not what a decider
// would conclude. Everything is in the order of the journal: the axis is the recorded time, made monotone by a clock
// (clock.go). Start with timeline.go for the data, with read.go for the way from a journal to a picture.
package timeline
