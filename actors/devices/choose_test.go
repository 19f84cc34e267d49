package devices

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// pool returns devices by id. One with a minus before it is unhealthy, one with a star is another pod's.
func pool(ids string, prefers bool) Pool {
	p := Pool{
		Resource: &journaletv1.DeviceResource{
			Connected: true, Preferred: prefers, Devices: map[string]*journaletv1.Device{},
		},
		Taken: map[string]bool{},
	}
	for _, id := range strings.Fields(ids) {
		bare := strings.Trim(id, "-*")
		p.Resource.Devices[bare] = &journaletv1.Device{Id: bare, Healthy: !strings.HasPrefix(id, "-")}
		if strings.HasPrefix(id, "*") {
			p.Taken[bare] = true
		}
	}
	return p
}

func demand(container string, count int64, init bool) *journaletv1.DeviceDemand {
	return &journaletv1.DeviceDemand{Container: container, Resource: "r", Count: count, Init: init}
}

func wish(container string, ids ...string) *journaletv1.ContainerDevices {
	return &journaletv1.ContainerDevices{Container: container, Resource: "r", Ids: ids}
}

func TestChoose(t *testing.T) {
	type list = []*journaletv1.DeviceDemand
	for name, c := range map[string]struct {
		demand list
		pool   Pool
		wishes []*journaletv1.ContainerDevices
		want   string
	}{
		"healthy and free, by id": {demand: list{demand("c", 2, false)}, pool: pool("-a *b d c e", false), want: "c=c,d"},
		"containers share none": {
			demand: list{demand("c", 1, false), demand("d", 1, false)}, pool: pool("a b", false), want: "c=a d=b",
		},
		"an init container leaves its devices": {
			demand: list{demand("i", 2, true), demand("j", 1, true), demand("c", 1, false), demand("d", 2, false)},
			pool:   pool("a b c", false), want: "i=a,b j=a c=a d=b,c",
		},
		"a sidecar keeps them": {
			demand: list{demand("i", 1, true), demand("s", 1, false), demand("c", 1, false)},
			pool:   pool("a b", false), want: "i=a s=a c=b",
		},
		"preferred ones that are free": {
			demand: list{demand("c", 2, false)}, pool: pool("a b c *d", true),
			wishes: []*journaletv1.ContainerDevices{wish("c", "d", "c", "x", "c")}, want: "c=a,c",
		},
		"requests a preference": {
			demand: list{demand("i", 1, true), demand("c", 2, false)}, pool: pool("a b c", true),
			wishes: []*journaletv1.ContainerDevices{wish("i", "b")}, want: "request c of a,b,c with b",
		},
		"requests none without a choice": {demand: list{demand("c", 2, false)}, pool: pool("a b", true), want: "c=a,b"},
		"too few": {
			demand: list{demand("i", 3, true), demand("s", 1, false), demand("c", 1, false)}, pool: pool("a -b *c", false),
			want: "requested 3, used 1, capacity 2",
		},
		"more than there can be": {
			demand: list{demand("c", 1<<62, false), demand("d", 1<<62, false), demand("e", 1<<62, false)},
			pool:   pool("a", false), want: "requested 9223372036854775807, used 0, capacity 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(Choose(c.demand, map[string]Pool{"r": c.pool}, c.wishes)); got != c.want {
				t.Errorf("chose %s, want %s", got, c.want)
			}
		})
	}
}

func TestDevicesAtTheNodesComeFirst(t *testing.T) {
	at := func(nodes ...int64) Pool {
		p := pool("a b c d", true)
		for i, id := range []string{"a", "b", "c", "d"} {
			if nodes[i] >= 0 {
				p.Resource.Devices[id].NumaNodes = []int64{nodes[i]}
			}
		}
		return p
	}
	for name, c := range map[string]struct {
		pool  Pool
		count int64
		wish  []string
		want  string
	}{
		"of more than are needed the preferred":     {at(0, 1, 1, 1), 2, []string{"a", "d"}, "c=b,d"},
		"all, and then the preferred":               {at(0, 1, 0, 0), 2, []string{"d", "a"}, "c=b,d"},
		"all, others, and at last those at no node": {at(-1, 1, 0, -1), 3, []string{}, "c=a,b,c"},
		"a preference is requested of those there":  {at(0, 1, 1, 1), 2, nil, "request c of b,c,d with "},
		"or of all that is free beside them":        {at(0, 1, 0, 0), 2, nil, "request c of a,b,c,d with b"},
	} {
		var wishes []*journaletv1.ContainerDevices
		if c.wish != nil {
			wishes = append(wishes, wish("c", c.wish...))
		}
		x := NewChooser([]*journaletv1.DeviceDemand{demand("c", c.count, false)}, map[string]Pool{"r": c.pool}, wishes)
		x.Take("c", 1<<1)
		if got := text(x.Finish()); got != c.want {
			t.Errorf("%s: chose %s, want %s", name, got, c.want)
		}
	}
}

func text(c Choice) string {
	switch {
	case c.Short != nil:
		return fmt.Sprintf("requested %d, used %d, capacity %d", c.Short.Requested, c.Short.Used, c.Short.Capacity)
	case c.Request != nil:
		q := c.Request
		return fmt.Sprintf("request %s of %s with %s",
			q.GetContainer(), strings.Join(q.GetAvailable(), ","), strings.Join(q.GetChosen(), ","))
	}
	var all []string
	for _, d := range c.Devices {
		all = append(all, d.GetContainer()+"="+strings.Join(d.GetIds(), ","))
	}
	return strings.Join(all, " ")
}

func TestAPluginThatIsAwayHasNothing(t *testing.T) {
	p := pool("a", false)
	p.Resource.Connected = false
	if c := Choose([]*journaletv1.DeviceDemand{demand("c", 1, false)}, map[string]Pool{"r": p}, nil); c.Short == nil {
		t.Errorf("chose %s of a plugin that is away", text(c))
	}
}

func TestNamesOfResources(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"cpu": false, "hugepages-2Mi": false, "kubernetes.io/thing": false, "sub.kubernetes.io/thing": false,
		"vendor.com/class=device": false, "requests.vendor.com/gpu": false, "vendor.com/gpu": true,
	} {
		if IsResource(name) != want {
			t.Errorf("%s: %t, want %t", name, IsResource(name), want)
		}
	}
}

func TestKeep(t *testing.T) {
	type list = []*journaletv1.DeviceDemand
	type had = []*journaletv1.ContainerDevices
	two := list{demand("c", 2, false)}
	for name, c := range map[string]struct {
		demand list
		pool   Pool
		had    had
		want   string
	}{
		"as they were":             {two, pool("a b c", true), had{wish("c", "c", "a")}, "c=a,c"},
		"also an unhealthy one":    {two, pool("a -b", false), had{wish("c", "b", "a")}, "c=a,b"},
		"not another pod's":        {two, pool("a *b", false), had{wish("c", "a", "b")}, ""},
		"not one that has gone":    {two, pool("a b", false), had{wish("c", "a", "z")}, ""},
		"not too few":              {two, pool("a b", false), had{wish("c", "a")}, ""},
		"not one twice":            {two, pool("a b", false), had{wish("c", "a", "a")}, ""},
		"not too many":             {two, pool("a b c", false), had{wish("c", "a", "b", "c")}, ""},
		"not another container's":  {two, pool("a b", false), had{wish("d", "a", "b")}, ""},
		"nothing":                  {two, pool("a b", false), nil, ""},
		"nothing of an empty pool": {two, Pool{}, had{wish("c", "a", "b")}, ""},
		"those of an init container": {
			list{demand("i", 1, true), demand("c", 1, false)}, pool("a", false),
			had{wish("i", "a"), wish("c", "a")}, "i=a c=a",
		},
		"not those of a sidecar": {
			list{demand("s", 1, false), demand("c", 1, false)}, pool("a b", false),
			had{wish("s", "a"), wish("c", "a")}, "",
		},
	} {
		got, ok := Keep(c.demand, map[string]Pool{"r": c.pool}, c.had)
		var text []string
		for _, d := range got {
			text = append(text, d.GetContainer()+"="+strings.Join(d.GetIds(), ","))
		}
		if ok != (c.want != "") || strings.Join(text, " ") != c.want {
			t.Errorf("%s: %v, %v", name, text, ok)
		}
	}
	if got, ok := Keep(two, nil, nil); !ok || len(got) > 0 {
		t.Errorf("of a resource without a plugin: %v, %v", got, ok)
	}
}
