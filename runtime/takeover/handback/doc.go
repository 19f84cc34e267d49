// Package handback gives a node back to the kubelet that takes a stopped agent's place (ADR 107, ADR 108): Read folds
// the journal, as the agent's next start would, for the pods' exclusive resources and for the resources that are
// allocated to them (ADR 109), and Leave ends what the agent has decided.
package handback
