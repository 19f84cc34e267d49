package manifest

import (
	"encoding/json"
	"strings"
	"testing"
)

// A manifest of 1.3 MB of "<" would take 8 MB.
func TestCanonicalManifestIsNotEscapedForHTML(t *testing.T) {
	const command = "a && b > c < d"
	pods, problems := Decode("p", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
		"spec":{"containers":[{"name":"c","image":"busybox","command":["`+command+`"]}]}}`), Options{NodeName: "n"})
	if len(pods) != 1 || len(problems) != 0 {
		t.Fatal(pods, problems)
	}
	if !strings.Contains(string(pods[0].Canonical), command) || strings.HasSuffix(string(pods[0].Canonical), "\n") {
		t.Errorf("%q", pods[0].Canonical)
	}
	// The UID is what it was in 0.1.0.
	if uid := pods[0].Pod.UID; uid != "d3df02373f940d97e3672ca1c2f497ab" {
		t.Errorf("the UID is %s", uid)
	}
	before, err := json.Marshal(pods[0].Pod)
	if got := pods[0].Escaped(); err != nil || string(got.Canonical) != string(before) || got.Digest != Digest(before) {
		t.Errorf("%v: as an earlier version wrote it:\n%s\nwant\n%s", err, got.Canonical, before)
	}
}

func TestLoadReadsOnlyCanonicalManifests(t *testing.T) {
	pods, problems := Decode("p", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
		"spec":{"containers":[{"name":"c","image":"busybox"}]}}`), Options{NodeName: "n"})
	if len(pods) != 1 || len(problems) != 0 {
		t.Fatal(pods, problems)
	}
	if Digest(pods[0].Canonical) != pods[0].Digest {
		t.Error("the digest is not that of the canonical bytes")
	}
	pod, err := Load(pods[0].Canonical)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(pod)
	if err != nil || string(again) != string(pods[0].Canonical) {
		t.Errorf("loaded and written again (%v):\n%s\nwas\n%s", err, again, pods[0].Canonical)
	}
	// An unknown field of a later version does not keep an older one from reading the manifest.
	newer := strings.Replace(string(pods[0].Canonical), `"spec":{`, `"spec":{"fieldOfTheFuture":1,`, 1)
	if _, err := Load([]byte(newer)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{``, `{`, `{}`, `{"kind":"Pod"}`, `{"kind":"Pod","apiVersion":"v1","spec":"hunter2"}`} {
		if _, err := Load([]byte(bad)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}
