package kubeletstate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// A record names who may use an image, and has nothing of a credential; records of other images stay. test/oracle has
// the kubelet's own code decide by such files.
func TestPullsOfImagesAreWritten(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(dir, PulledDir), 0o700))
	other := filepath.Join(dir, PulledDir, "sha256-other")
	must.OK(t, os.WriteFile(other, []byte("the kubelet's"), 0o600))
	_, err := Write(dir, Given{
		Pulled: map[string]*journaletv1.PulledImage{"sha256:a": {
			PulledAt: timestamppb.New(time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)),
			Credentials: []*journaletv1.PullCredentials{
				{Repository: "a/free", NodeAccessible: true, ServiceAccounts: []string{"n/s/u"}},
				{Repository: "b/secret", Secrets: []*journaletv1.PullSecret{
					{Namespace: "n", Name: "s", Uid: "u", Digest: "keyed"},
				}},
				{Repository: "c/account", ServiceAccounts: []string{"n/s/u", "damaged"}},
				{Repository: "d/unknown"},
			},
		}},
		Pulling: []string{"registry.example.com/app:2"},
	})
	must.OK(t, err)
	for _, c := range []struct{ dir, want string }{
		{PulledDir, `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",` +
			`"lastUpdatedTime":"2026-11-29T17:00:00Z","imageRef":"sha256:a","credentialMapping":{` +
			`"a/free":{"nodePodsAccessible":true},` +
			`"b/secret":{"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":""}]},` +
			`"c/account":{"kubernetesServiceAccounts":[{"uid":"u","namespace":"n","name":"s"}]},"d/unknown":{}}}`},
		{PullingDir, `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1",` +
			`"image":"registry.example.com/app:2"}`},
	} {
		files, err := filepath.Glob(filepath.Join(dir, c.dir, "sha256-*"))
		must.OK(t, err)
		found := ""
		for _, file := range files {
			b, err := os.ReadFile(file)
			must.OK(t, err)
			found += string(b)
		}
		if found = strings.Replace(found, "the kubelet's", "", 1); found != c.want {
			t.Errorf("%s has %s, want %s", c.dir, found, c.want)
		}
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "the kubelet's" {
		t.Errorf("the record of another image: %q, %v", b, err)
	}
}
