// Package drivers is the list of the agent's drivers: which drivers exist, and the order of their recovery and of their
// reading each stored record (ADR 087). It creates no driver and imports no driver's package, so that the agent and the
// simulation build the same list from drivers, or models of drivers, with ports of their own. Start at Places.
package drivers
