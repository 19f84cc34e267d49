// Package upgrade holds the tests of today's agent on what older builds left: the bus's folder as such a build wrote it,
// the manifests it served, and what the runtime showed then. The agent must open it, find it whole, report every pod as the
// old build did, leave every container alone, and end a pod that the old build began. They need neither root nor a
// container runtime: the runtime is a recording that answers questions and refuses, and notes, whatever would change it.
// Nothing may import this package. Start reading at upgrade_test.go; record_test.go says how a build's folder is recorded.
package upgrade
