package defect

import "runtime/debug"

// The texts about defects. None has the value of a panic, which may quote a Secret.
const (
	// Remedy is in each message about a defect, behind what the reader is to report.
	Remedy = "as a bug of the agent"
	// ReportManifest and ReportFile are the remedies where a manifest, or another file, brings the defect out.
	ReportManifest = "report this manifest " + Remedy
	ReportFile     = "report this file " + Remedy
	// Message is the failure that a panic becomes.
	Message = "the agent failed in it: report this " + Remedy + ", with the stack in its log"
)

// Unwinding is a panic's value that means no defect. A simulation ends its coroutines by such a panic.
type Unwinding interface{ Unwinds() }

// Recover is deferred by work that may be repeated, or only reads. If the work has panicked, it calls failed with the
// stack. A panic with an Unwinding goes on.
func Recover(failed func(stack string)) {
	switch p := recover().(type) {
	case nil:
	case Unwinding:
		panic(p)
	default:
		failed(string(debug.Stack()))
	}
}
