// Package oracle holds our decisions to the kubelet's: the same made-up and hand-kept pods go through its functions and
// through ours, and what comes out must be equal, or stand with its reason in known.go. It is a module of its own, since
// the kubelet's packages need replacements that the main module must not have. Run it with `make oracle`; a run prints
// its seed, and SEED=n repeats it. Start reading at compare.go, which says what a comparer is; then decode.go is the
// first of them. Package pods makes up what is compared, agent is our side, kubelet the other, fakecri the runtime of both.
package oracle
