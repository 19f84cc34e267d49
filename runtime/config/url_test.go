package config

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestManifestURLIsReadFromFilesAndFlags(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+`
staticPodURL: https://host/pods?token=s3cret
staticPodURLHeader: {X-Token: [s3cret, more], accept: [application/yaml]}
httpCheckFrequency: 5s
`)
	c, problems := mustLoad(t, "--config", file)
	if len(problems) > 0 || c.StaticPodURL != "https://host/pods?token=s3cret" || c.HTTPCheckFrequency != 5*time.Second {
		t.Errorf("%v, %s every %s", problems, c.StaticPodURL, c.HTTPCheckFrequency)
	}
	if h := c.URLHeader(); !reflect.DeepEqual(h["X-Token"], []string{"s3cret", "more"}) ||
		h.Get("Accept") != "application/yaml" {
		t.Errorf("headers are %v", h)
	}
	c, _ = mustLoad(t, "--config", file, "--manifest-url", "http://other/",
		"--manifest-url-header", "a:hello,b:again:and, c : world ,",
		"--manifest-url-header", "b:beautiful", "--http-check-frequency", "1s")
	want := map[string][]string{"a": {"hello"}, "b": {"again:and", "beautiful"}, "c": {"world"}}
	if c.StaticPodURL != "http://other/" || c.HTTPCheckFrequency != time.Second ||
		!reflect.DeepEqual(c.StaticPodURLHeader, want) {
		t.Errorf("%s every %s with %v", c.StaticPodURL, c.HTTPCheckFrequency, c.StaticPodURLHeader)
	}
	if c, _ = mustLoad(t); c.StaticPodURL != "" || c.HTTPCheckFrequency != DefaultHTTPCheck {
		t.Errorf("default: %s every %s", c.StaticPodURL, c.HTTPCheckFrequency)
	}
}

func TestSecretsOfTheManifestURLAreNotShown(t *testing.T) {
	for _, args := range [][]string{
		{"--manifest-url", "ftp://s3cret@host/"},
		{"--manifest-url", "http://host:s3cret/"},
		{"--manifest-url-header", "s3cret"},
		{"--manifest-url-header", "so so:s3cret"},
		{"--manifest-url-header", "X-Token:s3cret\r\nX-More: y"},
		{"--http-check-frequency", "10ms"},
	} {
		c := Defaults()
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		c.AddFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		err := c.Validate()
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%q: %v", args, err)
		}
		if strings.Contains(fs.Lookup("manifest-url-header").Value.String()+fs.FlagUsages(), "s3cret,") {
			t.Error("the headers are shown in the help")
		}
	}
}

func TestSecretOnTheCommandLineIsWarnedOf(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), head+`
staticPodURL: https://user:s3cret@host/pods?token=s3cret
staticPodURLHeader: {X-Token: [s3cret]}
`)
	for want, args := range map[string][][]string{
		"":                      {{"--manifest-url", "https://host/pods"}, {"--config", file}},
		"--manifest-url":        {{"--manifest-url", "https://s3cret@host/"}, {"--manifest-url", "https://host/?t=s3cret"}},
		"--manifest-url-header": {{"--manifest-url-header", "X-Token:s3cret"}},
	} {
		for _, a := range args {
			_, problems := mustLoad(t, a...)
			if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || problems[0].File != want) {
				t.Errorf("%q: %v", a, problems)
			}
			for _, p := range problems {
				if strings.Contains(p.String(), "s3cret") || !strings.Contains(p.String(), "--config") {
					t.Errorf("%q: %v", a, p)
				}
			}
		}
	}
}
