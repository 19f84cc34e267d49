package replay

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestSieveReadsTheFieldsOfTheContract(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		want    map[string]protowire.Number
	}{
		{&journaletv1.Record{}, map[string]protowire.Number{"actor": actorField, "fact": factField, "step": stepField}},
		{&journaletv1.Step{}, map[string]protowire.Number{
			"decisions": decisionField, "offset": offsetField, "more": moreField,
		}},
		{&journaletv1.Actor{}, map[string]protowire.Number{"kind": kindField, "id": idField}},
	} {
		fields := c.message.ProtoReflect().Descriptor().Fields()
		for name, number := range c.want {
			if f := fields.ByNumber(number); f == nil || string(f.Name()) != name {
				t.Errorf("field %d of %T is %v, want %s", number, c.message, f, name)
			}
		}
	}
}
