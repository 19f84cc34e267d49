package volume

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

func givenDevices(ids ...string) *journaletv1.GivenResources {
	return &journaletv1.GivenResources{
		Exclusive: []*journaletv1.ExclusiveContainer{{Container: "main", Cpus: "2-3", MemoryNodes: []uint32{0},
			Memory: []*journaletv1.HugePages{{PageBytes: 2 << 20, Bytes: 4 << 20}}}},
		Devices: []*journaletv1.ContainerDevices{{Container: "main", Resource: "example.com/gpu", Ids: ids}},
	}
}

func unknown(string) bool { return false }

// A later driver finds the pods' exclusive resources, in the order that they were given in.
func TestResourcesOutliveTheJournal(t *testing.T) {
	d, _, dir := newTest(t)
	must.OK(t, d.WriteResources("first", givenDevices("a")))
	must.OK(t, d.WriteResources("second", givenDevices("b")))
	must.OK(t, d.WriteResources("known", givenDevices("c")))
	must.OK(t, d.CreatePodDirs("none"))
	must.OK(t, d.WriteResources("none", nil))
	must.OK(t, d.WriteResources("first", givenDevices("b")))

	later := New(Options{RootDir: dir})
	found, err := later.FindResources(func(uid string) bool { return uid == "known" })
	must.OK(t, err)
	want := map[string]*journaletv1.GivenResources{"first": givenDevices("b"), "second": givenDevices("b")}
	want["first"].Number, want["second"].Number = 4, 2
	if !maps.EqualFunc(found, want, func(x, y *journaletv1.GivenResources) bool { return proto.Equal(x, y) }) {
		t.Errorf("found %v, want %v", found, want)
	}
	must.OK(t, later.WriteResources("third", givenDevices("d")))
	must.OK(t, later.WriteResources("first", nil))
	found, err = later.FindResources(unknown)
	must.OK(t, err)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"known", "second", "third"}) {
		t.Errorf("found %v", got)
	}
	if n := found["third"].GetNumber(); n != 5 {
		t.Errorf("the next one has number %d, want 5", n)
	}
}

// A file that cannot be read is named, and the others count.
func TestDamagedResourcesAreNamed(t *testing.T) {
	d, _, dir := newTest(t)
	must.OK(t, d.WriteResources("good", givenDevices("a")))
	pods := filepath.Join(dir, "pods")
	for uid, text := range map[string]string{
		"damaged": `{"exclusive": [`, "other": `[]`, "long": strings.Repeat(" ", maxResourcesBytes+1),
		"newer": `{"later": 1}`,
	} {
		must.OK(t, d.CreatePodDirs(uid))
		must.OK(t, os.WriteFile(filepath.Join(pods, uid, resourcesFile), []byte(text), 0o600))
	}
	must.OK(t, d.CreatePodDirs("link"))
	must.OK(t, os.Symlink("/etc/passwd", filepath.Join(pods, "link", resourcesFile)))
	found, err := d.FindResources(unknown)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"good", "newer"}) {
		t.Errorf("found %v", got)
	}
	for _, uid := range []string{"damaged", "other", "long", "link"} {
		if err == nil || !strings.Contains(err.Error(), filepath.Join(pods, uid, resourcesFile)) {
			t.Errorf("the error does not name %s: %v", uid, err)
		}
	}
}

// A pod with more than a file may have does not start, and what is beyond the bound of all pods is named.
func TestResourcesHaveBounds(t *testing.T) {
	d, _, _ := newTest(t)
	id := strings.Repeat("x", 128)
	most := slices.Repeat([]string{id}, maxResourcesBytes/(len(id)+4)-4) // quoted, with a comma and, at times, a space
	for _, uid := range []string{"u1", "u2", "u3"} {
		must.OK(t, d.WriteResources(uid, givenDevices(most...)))
	}
	if err := d.WriteResources("u4", givenDevices(slices.Concat(most, most)...)); err == nil {
		t.Error("a file beyond the bound was written")
	}
	const little = 50
	for i := range little {
		must.OK(t, d.WriteResources(fmt.Sprint("little-", i), givenDevices("a")))
	}
	found, err := d.FindResources(unknown)
	if err == nil || !strings.Contains(err.Error(), "u3/resources: all pods together") {
		t.Errorf("the error does not name the pod that has the most: %v", err)
	}
	for i := range little {
		if found[fmt.Sprint("little-", i)] == nil {
			t.Errorf("pod %d, which has little, is left out", i)
		}
	}
	if len(found) < little+1 || len(found) > little+2 {
		t.Errorf("%d pods are found", len(found))
	}
	for i := range maxUnreadable + 4 {
		must.OK(t, d.WriteResources(fmt.Sprint("more-", i), givenDevices(most...)))
	}
	_, err = d.FindResources(unknown)
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != maxUnreadable+1 || !strings.HasSuffix(lines[maxUnreadable], " files more") {
		t.Errorf("%d lines: %v", len(lines), err)
	}
}
