package describe

import (
	"testing"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

func TestPullsNameWhoseCredentialsTheyNeeded(t *testing.T) {
	intent := messages.DecisionID(1, 7, messages.Image, 0)
	d := New()
	d.Describe(intent, messages.Image, messages.NewEvent(messages.NewCall(&journaletv1.PullImage{Image: "app:1"})))
	finished := func(c *journaletv1.PullCredentials) *ev {
		return messages.NewEvent(&journaletv1.CallFinished{IntentId: intent, Requester: "image/0", PullCredentials: c})
	}
	for _, c := range []struct {
		want string
		e    *ev
	}{
		{"requested image app:1 with pull secret one, two", messages.NewEvent(
			&journaletv1.ImagePullRequested{Uid: "u", Image: "app:1", Namespace: "ns", PullSecrets: []string{"one", "two"}})},
		{"pulled image app:1", finished(nil)},
		{"pulled image app:1", finished(&journaletv1.PullCredentials{NodeAccessible: true})},
		{"pulled image app:1 with secret ns/one", finished(&journaletv1.PullCredentials{
			Secrets: []*journaletv1.PullSecret{{Namespace: "ns", Name: "one", Digest: "00"}}})},
		{"pulled image app:1 with the token of service account ns/robot",
			finished(&journaletv1.PullCredentials{ServiceAccounts: []string{"ns/robot/"}})},
	} {
		if got := d.Describe("", messages.Pod("u"), c.e); got != c.want {
			t.Errorf("described as %q, want %q", got, c.want)
		}
	}
}
