package objects

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/journalet/journalet/messages/journaletv1"
)

// isWatchedFor wants the last Watch of the key to name the file.
func (r *rig) isWatchedFor(k Key, want string) {
	r.Helper()
	synctest.Wait()
	r.backing.mu.Lock()
	defer r.backing.mu.Unlock()
	if got := r.backing.file[k]; got != want {
		r.Errorf("%s is watched for the pods that have it from %q, want %q", k.Name, got, want)
	}
}

// The pods that have an immutable object do not follow its name: the next pod's watch says where they have it from.
func TestWatchNamesTheFileOfTheObjectThatPodsHave(t *testing.T) {
	inBubble(t, func(r *rig) {
		o := lasting("", "1")
		o.File = "/objects/b.yaml"
		r.put(keyA, o)
		r.refers("u", cmRef("a"))
		r.reports("u a=PRESENT+@/objects/b.yaml!")
		r.isWatchedFor(keyA, "")
		r.refers("v", cmRef("a"))
		r.isWatchedFor(keyA, "/objects/b.yaml")
	})
}

func TestWatchNamesTheFileOfTheObjectThatPodsHadBefore(t *testing.T) {
	refs := []*journaletv1.ObjectRef{cmRef("a"), secretRef("b")}
	was := func(file string, immutable bool) []*journaletv1.ObjectRead {
		all := []*journaletv1.ObjectRead{
			{Ref: refs[0], State: present, Digest: "d", File: file}, {Ref: refs[1], State: missing},
		}
		if immutable {
			all[0].Immutable, all[0].Uid = true, "d"
		}
		return all
	}
	for name, test := range map[string]struct {
		immutable bool
		pending   string
		want      string
	}{
		"handled":               {want: "b.yaml"},
		"pending":               {pending: "c.yaml", want: "c.yaml"},
		"immutable":             {immutable: true, want: "b.yaml"},
		"immutable and pending": {immutable: true, pending: "c.yaml", want: "c.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, root)
				r.Seed(podRef("u"), refs, was("b.yaml", test.immutable))
				if test.pending != "" {
					r.SeedPending(&journaletv1.ObjectsRead{Uid: "u", Objects: was(test.pending, test.immutable)})
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _ = r.Store.Run(ctx) }()
				r.refers("v", refs...)
				r.isWatchedFor(keyA, test.want)
				r.isWatchedFor(keyB, "")
			})
		})
	}
}
