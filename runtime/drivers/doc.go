// Package drivers is the list of the agent's drivers: which there are, and in which order they take their recovered
// state and each stored record (ADR 087). It creates none and knows none of their packages, so that the agent and the
// simulation build the same list from drivers, or models of drivers, with ports of their own. Start at Places.
package drivers
