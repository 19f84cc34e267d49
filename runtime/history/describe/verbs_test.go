package describe

import (
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestEachCallHasTheFormsOfItsVerb(t *testing.T) {
	works := new(journaletv1.CallRequested).ProtoReflect().Descriptor().Oneofs().ByName("work").Fields()
	if works.Len() == 0 {
		t.Error("there is no work")
	}
	for i := range works.Len() {
		work, call := works.Get(i), new(journaletv1.CallRequested)
		call.ProtoReflect().Set(work, call.ProtoReflect().NewField(work))
		c := describeCall(call)
		if forms := verbForms[c.verb]; c.verb == "perform" || forms[0] == "" || forms[1] == "" {
			t.Errorf("%s: the verb is %q, with the forms %q", work.Name(), c.verb, forms)
		}
	}
}
