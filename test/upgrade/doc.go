// Package upgrade holds the tests of the agent on a root directory that another run recorded: the bus's directory, the
// manifests it served, and what the runtime showed then. The agent must open it, verify it, fold it to the recorded
// state, report every pod as recorded, leave every container alone, and stop a pod that the recorded run started. A
// root directory of another format it must refuse as a whole. The tests need neither root nor a container runtime: the
// runtime is a recording that answers inspections, and refuses and records every call that would change it.
// Nothing may import this package. Start reading at upgrade_test.go; record_test.go makes the recording.
package upgrade
