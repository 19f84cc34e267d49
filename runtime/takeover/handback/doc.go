// Package handback reads from the journal of a stopped agent what the node's pods have alone, for the kubelet that
// takes the agent's place (ADR 107). It folds the journal, as the agent's next start would, and changes nothing.
package handback
