package node

import (
	"slices"
	"testing"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestHostIPsAreThoseOfTheNodeByTypeThenFamily(t *testing.T) {
	list := func(ips ...string) []string { return ips }
	for name, c := range map[string]struct {
		internal, external, want []string
	}{
		"one":                     {list("10.0.0.1"), nil, list("10.0.0.1")},
		"internal first":          {list("10.0.0.1"), list("192.0.2.1"), list("10.0.0.1")},
		"external alone":          {nil, list("192.0.2.1"), list("192.0.2.1")},
		"both families":           {list("fd00::1", "10.0.0.1"), nil, list("fd00::1", "10.0.0.1")},
		"the second is external":  {list("10.0.0.1"), list("192.0.2.1", "2001:db8::1"), list("10.0.0.1", "2001:db8::1")},
		"two of one family":       {list("10.0.0.1", "10.0.0.2"), nil, list("10.0.0.1")},
		"what is none is no host": {list("n.example"), list("192.0.2.1"), list("192.0.2.1")},
		"none":                    {},
	} {
		o := &journaletv1.NodeObserved{Uid: "u", Ips: &journaletv1.NodeIPs{Internal: c.internal, External: c.external}}
		if got, known := HostIPs(o); !known || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, known %v, want %q", name, got, known, c.want)
		}
	}
	for name, o := range map[string]*journaletv1.NodeObserved{
		"nothing observed":   nil,
		"no Node":            {Ips: &journaletv1.NodeIPs{Internal: list("10.0.0.1")}},
		"an earlier version": {Uid: "u"},
	} {
		if got, known := HostIPs(o); known || got != nil {
			t.Errorf("%s: %q is known", name, got)
		}
	}
}
