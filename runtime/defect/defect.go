package defect

import "runtime/debug"

// Message is what a failure says that a panic has become. The value of the panic is shown nowhere: it may quote a
// Secret. Every message about a defect has Remedy in it.
const (
	Remedy  = "as a bug of the agent"
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
