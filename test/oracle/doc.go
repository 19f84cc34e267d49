// Package oracle compares our decisions with the kubelet's. The same generated and hand-written pods go through the
// kubelet's functions and through ours. The results must be equal, or be in known.go or known_history.go with a reason,
// a row of docs/SCOPE.md and a kept case; -oracle.keep writes the missing ones. It is a module of its own, because the
// kubelet's packages need replacements that the main module must not have. `make oracle` runs it; a run prints its
// seed, and SEED=n repeats it. Start reading at compare.go (what a comparer is), then decode.go (the first one).
// Package pods generates the cases, agent is our side, kubelet the other, fakecri the runtime of both.
package oracle
