package kubeletstate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// record plants the record of an image, with a mapping in JSON.
func record(t *testing.T, dir, name, id, mapping string) {
	t.Helper()
	must.OK(t, errors.Join(os.MkdirAll(filepath.Join(dir, PulledDir), 0o700),
		os.WriteFile(filepath.Join(dir, CPUFile), []byte(`{"policyName":"none"}`), 0o600),
		os.WriteFile(filepath.Join(dir, PulledDir, name), fmt.Appendf(nil, `{"kind":"ImagePulledRecord",`+
			`"apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-11-29T17:00:00Z","imageRef":%q,`+
			`"credentialMapping":%s}`, id, mapping), 0o600)))
}

func TestPulledImagesAreRead(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, recordName("sha256:a"), "sha256:a", `{"b/free":{"nodePodsAccessible":true},"a/secret":{
		"kubernetesSecrets":[{"uid":"u","namespace":"n","name":"s","credentialHash":"x"}],
		"kubernetesServiceAccounts":[{"uid":"v","namespace":"n","name":"d"}]}}`)
	record(t, dir, recordName("sha256:b"), "sha256:b", "null")
	want := map[string]*journaletv1.KubeletImage{
		"sha256:a": {Pulls: []*journaletv1.KubeletPull{
			{Repository: "a/secret", Secrets: []string{"n/s/u"}, ServiceAccounts: []string{"n/d/v"}},
			{Repository: "b/free", NodeAccessible: true},
		}},
		"sha256:b": {},
	}
	got := Read(dir)
	if len(got.GetImages()) != len(want) || len(got.GetProblems()) > 0 {
		t.Errorf("%d images, want %d; %q", len(got.GetImages()), len(want), got.GetProblems())
	}
	for id, image := range want {
		if !proto.Equal(got.GetImages()[id], image) {
			t.Errorf("%s: got %s, want %s", id, protojson.Format(got.GetImages()[id]), protojson.Format(image))
		}
	}
}

// A record that cannot be read is named, and the others count.
func TestDamagedRecordsOfPullsAreNamed(t *testing.T) {
	other := recordName("sha256:other")
	for says, plant := range map[string]func(t *testing.T, dir string){
		"it is damaged: ":                  func(t *testing.T, dir string) { record(t, dir, other, "sha256:other", "{") },
		"it is of no image, or of another": func(t *testing.T, dir string) { record(t, dir, other, "sha256:a", "{}") },
		"whose id has 0 bytes":             func(t *testing.T, dir string) { record(t, dir, recordName(""), "", "{}") },
		"more than 65536 bytes": func(t *testing.T, dir string) {
			record(t, dir, other, "i", strings.Repeat(" ", maxRecordBytes))
		},
		"there are more than 1000 records in": func(t *testing.T, dir string) {
			for i := range maxRecords {
				id := fmt.Sprint("sha256:", i)
				must.OK(t, os.WriteFile(filepath.Join(dir, PulledDir, recordName(id)), fmt.Appendf(nil,
					`{"kind":"ImagePulledRecord","imageRef":%q}`, id), 0o600))
			}
		},
	} {
		dir := t.TempDir()
		record(t, dir, recordName("sha256:a"), "sha256:a", "{}")
		plant(t, dir)
		got := Read(dir)
		if all := strings.Join(got.GetProblems(), "\n"); !strings.Contains(all, says) ||
			!strings.Contains(all, filepath.Join(dir, PulledDir)) {
			t.Errorf("got %q, want %q", all, says)
		}
		if n := len(got.GetImages()); n != 1 && n != maxRecords {
			t.Errorf("%s: %d images count", says, n)
		}
	}
}

// Of images beyond the bound it is recorded that nobody may use them without a pull of their own.
func TestPulledImagesBeyondTheBoundAreForNobody(t *testing.T) {
	dir := t.TempDir()
	long := `{"r":{"kubernetesSecrets":[{"name":"` + strings.Repeat("s", 50<<10) + `"}]}}`
	for i := range 4 {
		id := fmt.Sprint("sha256:", i)
		record(t, dir, recordName(id), id, long)
	}
	got := Read(dir).GetImages()
	if len(got) != 4 || len(got["sha256:0"].GetPulls()) != 1 || len(got["sha256:3"].GetPulls()) != 0 {
		t.Errorf("got %d images with %d and %d pulls", len(got), len(got["sha256:0"].GetPulls()),
			len(got["sha256:3"].GetPulls()))
	}
}
