package defect

import (
	"strings"
	"testing"
)

type ends struct{}

func (ends) Unwinds() {}

// recovered calls a function and returns the stack of its panic.
func recovered(f func()) (stack string) {
	defer Recover(func(s string) { stack = s })
	f()
	return ""
}

func TestADefectIsRecovered(t *testing.T) {
	if stack := recovered(func() { panic("s3cret") }); !strings.Contains(stack, "TestADefectIsRecovered") ||
		strings.Contains(stack, "s3cret") {
		t.Errorf("the stack is %q", stack)
	}
	if stack := recovered(func() {}); stack != "" {
		t.Errorf("without a panic the stack is %q", stack)
	}
}

func TestACoroutineIsUnwound(t *testing.T) {
	defer func() {
		if recover() != any(ends{}) {
			t.Error("it is not unwound")
		}
	}()
	recovered(func() { panic(ends{}) })
}
