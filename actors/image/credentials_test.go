package image

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
)

var at = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func secretOf(name, digest string) *journaletv1.PullSecret {
	return &journaletv1.PullSecret{Namespace: "ns", Name: name, Digest: digest}
}

// pulls records pulls of one image and returns what is known of it.
func pulls(all ...*journaletv1.PullCredentials) string {
	pulled := map[string]*journaletv1.PulledImage{}
	for _, c := range all {
		RecordPull(pulled, &journaletv1.CallFinished{ImageRef: "id", PullCredentials: c}, at)
	}
	text := ""
	for _, c := range pulled["id"].GetCredentials() {
		text += c.GetRepository() + ":"
		if c.GetNodeAccessible() {
			text += " all"
		}
		for _, s := range c.GetSecrets() {
			text += " " + s.GetName() + "=" + s.GetDigest()
		}
		for _, a := range c.GetServiceAccounts() {
			text += " " + a
		}
		text += "\n"
	}
	return text
}

func TestCredentialsOfPullsAreAddedUp(t *testing.T) {
	with := func(repository string, secrets ...*journaletv1.PullSecret) *journaletv1.PullCredentials {
		return &journaletv1.PullCredentials{Repository: repository, Secrets: secrets}
	}
	withAccounts := func(accounts ...string) *journaletv1.PullCredentials {
		return &journaletv1.PullCredentials{Repository: "a", ServiceAccounts: accounts}
	}
	everyone := &journaletv1.PullCredentials{Repository: "a", NodeAccessible: true}
	type list []*journaletv1.PullCredentials
	for _, c := range []struct {
		name, want string
		pulls      list
	}{
		{"a pull without a record", "", list{nil}},
		{"two Secrets", "a: s=1 t=2\n", list{with("a", secretOf("s", "1")), with("a", secretOf("t", "2"))}},
		{"a Secret that has changed", "a: t=2 s=3\n", list{with("a", secretOf("s", "1")),
			with("a", secretOf("t", "2")), with("a", secretOf("s", "3"))}},
		{"two repositories", "a: s=1\nb: s=1\n", list{with("a", secretOf("s", "1")), with("b", secretOf("s", "1"))}},
		{"service accounts", "a: s=1 ns/x/ ns/y/\n",
			list{withAccounts("ns/x/"), with("a", secretOf("s", "1")), withAccounts("ns/y/"), withAccounts("ns/y/")}},
		{"then without", "a: all\n", list{with("a", secretOf("s", "1")), everyone, with("a", secretOf("t", "2"))}},
	} {
		if got := pulls(c.pulls...); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	many := make([]*journaletv1.PullCredentials, maxSources+5)
	for i := range many {
		many[i] = with("a", secretOf(fmt.Sprint(i), "x"))
	}
	pulled := map[string]*journaletv1.PulledImage{}
	for _, c := range many {
		RecordPull(pulled, &journaletv1.CallFinished{ImageRef: "id", PullCredentials: c}, at)
	}
	if s := pulled["id"].GetCredentials()[0].GetSecrets(); len(s) != maxSources || s[0].GetName() != "5" {
		t.Errorf("%d Secrets, the first is %v", len(s), s[0])
	}
	RecordPull(pulled, &journaletv1.CallFinished{ImageRef: "failed", PullCredentials: everyone,
		Error: journaletv1.CallError_CALL_ERROR_RUNTIME}, at)
	RecordPull(pulled, &journaletv1.CallFinished{PullCredentials: everyone}, at)
	if len(pulled) != 1 {
		t.Errorf("%d images", len(pulled))
	}
}

func TestPulledImageIsForgottenOnceItIsGone(t *testing.T) {
	hour := at.Add(keepPulled)
	present := func(id string) []*journaletv1.ImageObservation { return []*journaletv1.ImageObservation{{Id: id}} }
	for _, c := range []struct {
		name     string
		observed *journaletv1.ImagesObserved
		at       time.Time
		kept     bool
	}{
		{"removed", &journaletv1.ImagesObserved{Removed: []string{"id"}}, hour, false},
		{"another is removed", &journaletv1.ImagesObserved{Removed: []string{"other"}}, hour, true},
		{"not in a part of all", &journaletv1.ImagesObserved{Present: present("x")}, hour, true},
		{"not in all", &journaletv1.ImagesObserved{Complete: true}, hour, false},
		{"in all", &journaletv1.ImagesObserved{Complete: true, Present: present("id")}, hour, true},
		// The list may be older than the pull: without its entry the image would count as preloaded.
		{"removed just after the pull", &journaletv1.ImagesObserved{Removed: []string{"id"}}, hour.Add(-1), true},
		{"not in all just after the pull", &journaletv1.ImagesObserved{Complete: true}, at, true},
	} {
		pulled := map[string]*journaletv1.PulledImage{}
		RecordPull(pulled, &journaletv1.CallFinished{ImageRef: "id",
			PullCredentials: &journaletv1.PullCredentials{Repository: "a", NodeAccessible: true}}, at)
		ForgetImages(pulled, c.observed, c.at)
		if (pulled["id"] != nil) != c.kept {
			t.Errorf("%s: kept %v", c.name, !c.kept)
		}
	}
}

func TestPullsAreKeyedByImageAndCredentials(t *testing.T) {
	seen := map[string]int{}
	for i, p := range []*journaletv1.PullImage{
		{Image: "a"}, {Image: "b"}, {Image: "a", PullSecrets: []string{"s"}}, {Image: "a", PullSecrets: []string{"s", "t"}},
		{Image: "a", PullSecrets: []string{"s t"}}, {Image: "a", ServiceAccount: "s"},
		{Image: "a", Namespace: "n", ServiceAccount: "s"}, {Image: `["a","n","s"]`}, {Image: `["a","","","s"]`},
	} {
		key := pullKey(p)
		if other, has := seen[key]; has {
			t.Errorf("%d and %d have one key: %s", other, i, key)
		}
		seen[key] = i
	}
	if key := pullKey(&journaletv1.PullImage{Image: "a"}); key != "a" {
		t.Errorf("without credentials: %q", key)
	}
}

// What a kubelet had pulled is pulled, and for nobody else than it was for the kubelet.
func TestImagesThatAKubeletPulledArePulled(t *testing.T) {
	a := New()
	play(t, a, "agent", &journaletv1.AgentStarted{KubeletState: &journaletv1.KubeletState{
		Images: map[string]*journaletv1.KubeletImage{
			"unknown": {}, "free": {Pulls: []*journaletv1.KubeletPull{{Repository: "r/free", NodeAccessible: true}}},
			"secret": {Pulls: []*journaletv1.KubeletPull{{
				Repository: "r/secret", Secrets: []string{"n/s/u", "damaged"}, ServiceAccounts: []string{"n/d/v"},
			}}},
		},
	}})
	for id, want := range map[string]*journaletv1.PulledImage{
		"unknown": {}, "free": {Credentials: []*journaletv1.PullCredentials{{Repository: "r/free", NodeAccessible: true}}},
		"secret": {Credentials: []*journaletv1.PullCredentials{{
			Repository: "r/secret", Secrets: []*journaletv1.PullSecret{{Namespace: "n", Name: "s", Uid: "u"}},
			ServiceAccounts: []string{"n/d/v"},
		}}},
	} {
		if got := a.Images().GetPulled()[id]; !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
	}
}
