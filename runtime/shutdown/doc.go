// Package shutdown delays the shutdown of the machine until the node's pods have ended (ADR 049). It holds an inhibitor
// lock of systemd-logind, records ShutdownSignaled when logind announces a shutdown or that one was cancelled, and
// releases the lock when the node reports that no pod is left (DrainProgressed). It decides nothing: which pods end
// when, and how long they have, the node actor decides. Start with driver.go; logind.go speaks D-Bus.
package shutdown
