// Package preview says what a start of the agent would do with the pods that a kubelet runs, before anything is changed
// (ADR 092). It folds what a start would find, with the deciders of the agent, and performs nothing: a call that would
// set up what a pod has already is answered with success, and every other one is what would change. Start at Preview.
package preview
