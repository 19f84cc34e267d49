package credentials

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/program"
	"github.com/journalet/journalet/test/must"
)

// pluginDir is a directory with programs, and the configuration of them.
type pluginDir struct {
	*testing.T
	dir, config string
}

func newPluginDir(t *testing.T) *pluginDir {
	p := &pluginDir{T: t, dir: filepath.Join(t.TempDir(), "bin")}
	p.config = filepath.Join(filepath.Dir(p.dir), "providers.yaml")
	must.OK(t, os.Mkdir(p.dir, 0o700))
	return p
}

// program writes a shell script.
func (p *pluginDir) program(name, script string) {
	p.Helper()
	must.OK(p, os.WriteFile(filepath.Join(p.dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

// answers is a script that keeps its requests, a line each, and writes an answer.
func (p *pluginDir) answers(cacheKeyType, more string) string {
	return fmt.Sprintf(`cat >> %[1]s; echo >> %[1]s
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",`+
		`"cacheKeyType":%[2]q,%[3]s"auth":{"*.example":{"username":"u","password":"p'$SUFFIX'"}}}'`,
		p.requestsPath(), cacheKeyType, more)
}

func (p *pluginDir) requestsPath() string { return filepath.Join(filepath.Dir(p.dir), "requests") }

func (p *pluginDir) requests() []string {
	b, _ := os.ReadFile(p.requestsPath())
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// configure writes the configuration of one provider, with more of its fields.
func (p *pluginDir) configure(name, more string) {
	p.Helper()
	must.OK(p, os.WriteFile(p.config, []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: `+name+`
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example"]
  defaultCacheDuration: 10m
  env: [{name: SUFFIX, value: "-1"}]
`+more), 0o600))
}

func (p *pluginDir) load() *Providers {
	p.Helper()
	all, err := LoadProviders(p.config, p.dir, nil)
	must.OK(p, err)
	return all
}

func pullOf(image, account string) *journaletv1.PullImage {
	return &journaletv1.PullImage{Image: image, Namespace: "ns", ServiceAccount: account}
}

func TestPluginGivesCredentialsAsTheyAreKept(t *testing.T) {
	for kind, runs := range map[string]int{"Image": 3, "Registry": 2, "Global": 1} {
		t.Run(kind, func(t *testing.T) {
			p := newPluginDir(t)
			p.program("p", p.answers(kind, ""))
			p.configure("p", "")
			all := p.load()
			d, _, _ := newDriver(t, func(o *Options) { o.Providers = all })
			for _, image := range []string{"r.example/a:1", "r.example/a:2", "r.example/b", "s.example/a"} {
				if f := d.Find(t.Context(), pullOf(image, "")); passwords(f) != "p-1" || len(f.Problems) > 0 {
					t.Errorf("%s: %q, problems %q", image, passwords(f), f.Problems)
				}
			}
			if f := d.Find(t.Context(), pullOf("other.test/a", "")); len(f.Candidates) > 0 {
				t.Errorf("an image that it does not match: %q", passwords(f))
			}
			if got := p.requests(); len(got) != runs {
				t.Errorf("%d runs, want %d: %q", len(got), runs, got)
			}
			want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1",` +
				`"image":"r.example/a"}`
			if got := p.requests()[0]; got != want {
				t.Errorf("request %s", got)
			}
			// Its time is over.
			all.plugins[0].now = func() time.Time { return time.Now().Add(11 * time.Minute) }
			d.Find(t.Context(), pullOf("r.example/a", ""))
			if got := len(p.requests()); got != runs+1 {
				t.Errorf("%d runs after its time, want %d", got, runs+1)
			}
		})
	}
}

func TestAPluginHasWhatItsConfigurationSetsAndTheProxy(t *testing.T) {
	for name, value := range map[string]string{
		"NOTIFY_SOCKET": "/n", "LISTEN_FDS": "1", "GOMEMLIMIT": "384MiB", "AWS_PROFILE": "p", "https_proxy": "http://proxy:1",
	} {
		t.Setenv(name, value)
	}
	p := newPluginDir(t)
	path := filepath.Join(filepath.Dir(p.dir), "environment")
	p.program("p", "env > "+path+"\n"+p.answers("Image", ""))
	p.configure("p", "")
	all := p.load()
	d, _, _ := newDriver(t, func(o *Options) { o.Providers = all })
	if f := d.Find(t.Context(), pullOf("r.example/a", "")); len(f.Problems) > 0 {
		t.Fatalf("problems %q", f.Problems)
	}
	b, err := os.ReadFile(path)
	must.OK(t, err)
	got := slices.DeleteFunc(strings.Fields(string(b)), func(e string) bool {
		return strings.HasPrefix(e, "PWD=") || strings.HasPrefix(e, "_=") || strings.HasPrefix(e, "SHLVL=") // the shell's
	})
	slices.Sort(got)
	want := slices.Concat([]string{"HOME=/root", "LANG=C", "LC_ALL=C", "PATH=" + program.Path, "SUFFIX=-1"},
		program.Network())
	slices.Sort(want)
	if !slices.Equal(got, want) || !slices.Contains(got, "https_proxy=http://proxy:1") {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

func TestOutcomeThatIsNotToBeKeptIsNot(t *testing.T) {
	p := newPluginDir(t)
	p.program("p", p.answers("Global", `"cacheDuration":"0s",`))
	p.configure("p", "")
	d, _, _ := newDriver(t, func(o *Options) { o.Providers = p.load() })
	for range 2 {
		d.Find(t.Context(), pullOf("r.example/a", ""))
	}
	if got := len(p.requests()); got != 2 {
		t.Errorf("%d runs", got)
	}
}

func TestPluginGetsTheTokenOfTheServiceAccount(t *testing.T) {
	p := newPluginDir(t)
	p.program("p", p.answers("Global", ""))
	p.configure("p", "  tokenAttributes: {serviceAccountTokenAudience: reg, requireServiceAccount: true, "+
		"cacheType: ServiceAccount}\n")
	d, f, _ := newDriver(t, func(o *Options) { o.Providers = p.load() })
	f.tokens["ns/robot/reg"], f.tokens["ns/other/reg"] = "t.o.k", "o.t.h"
	if found := d.Find(t.Context(), pullOf("r.example/a", "")); len(found.Candidates)+len(found.Problems) > 0 {
		t.Errorf("without a service account: %v", found)
	}
	var used *journaletv1.PullCredentials
	for _, account := range []string{"robot", "robot", "other"} {
		found := d.Find(t.Context(), pullOf("r.example/a", account))
		if passwords(found) != "p-1" {
			t.Fatalf("of %s: %v", account, found.Problems)
		}
		if account == "robot" {
			used = found.Candidates[0].Used("r.example/a")
		}
	}
	if got := p.requests(); len(got) != 2 || !strings.Contains(got[0], `"serviceAccountToken":"t.o.k"`) {
		t.Errorf("requests %q", got)
	}
	if found := d.Find(t.Context(), pullOf("r.example/a", "none")); strings.Join(found.Problems, "") !=
		"credential provider p: no token" {
		t.Errorf("without a token: %q", found.Problems)
	}
	d.Stored(pulledWith("i", "sha256:a", used))
	for account, want := range map[string]bool{"robot": false, "other": true, "": true} {
		pod := podOf("ns", account)
		if got := d.MustPull(t.Context(), pod, "r.example/a", "sha256:a"); got != want {
			t.Errorf("a pod of service account %q must pull: %v", account, got)
		}
	}
}

func TestTokenIsNoPasswordUnlessItIsKeptByToken(t *testing.T) {
	for cacheType, want := range map[string]string{"ServiceAccount": "", "Token": "p-1"} {
		p := newPluginDir(t)
		p.program("p", p.answers("Global", ""))
		p.configure("p", "  tokenAttributes: {serviceAccountTokenAudience: reg, requireServiceAccount: false, cacheType: "+
			cacheType+"}\n")
		d, f, _ := newDriver(t, func(o *Options) { o.Providers = p.load() })
		f.tokens["ns/robot/reg"] = "p-1"
		if got := passwords(d.Find(t.Context(), pullOf("r.example/a", "robot"))); got != want {
			t.Errorf("%s: %q", cacheType, got)
		}
	}
}

func TestFailureOfAPluginShowsNothingThatItWrote(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"exit": {"echo hunter2 >&2; exit 3",
			"exit status 3, with 8 bytes of error output, which is withheld; run it by hand"},
		"text": {"echo hunter2", "its output is not JSON"},
		"kind": {`echo '{"kind":"hunter2"}'`,
			"its output is no CredentialProviderResponse of credentialprovider.kubelet.k8s.io/v1"},
		"field": {strings.ReplaceAll(answer, "EXTRA", `"hunter2":1,`),
			"its output is no valid CredentialProviderResponse"},
		"key": {strings.ReplaceAll(answer, "EXTRA", `"cacheKeyType":"hunter2",`),
			"its cacheKeyType is none of Image, Registry and Global"},
		"endless": {"while :; do echo hunter2hunter2hunter2hunter2; done", "it wrote more than 1048576 bytes"},
		"errors":  {"exec >&2; while :; do echo hunter2hunter2hunter2; done", "it wrote more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPluginDir(t)
			p.program("p", c.script)
			p.configure("p", "")
			var failed []string
			d, _, _ := newDriver(t, func(o *Options) {
				o.Providers = p.load()
				o.Providers.Observe(func(plugin string, took time.Duration, err error) {
					if took > 0 && err != nil {
						failed = append(failed, plugin)
					}
				})
			})
			f := d.Find(t.Context(), pullOf("r.example/a", ""))
			if got := strings.Join(failed, " "); got != "p" && name != "key" {
				t.Errorf("failed runs of %q, want p", got)
			}
			if got := strings.Join(f.Problems, ""); got != "credential provider p: "+c.want || len(f.Candidates) > 0 {
				t.Errorf("problems %q, want %q", got, c.want)
			}
		})
	}
}

const answer = `echo '{"kind":"CredentialProviderResponse",` +
	`"apiVersion":"credentialprovider.kubelet.k8s.io/v1",EXTRA"auth":{}}'`

func TestPluginThatHangsIsKilledWithItsChildren(t *testing.T) {
	p := newPluginDir(t)
	p.program("p", "sleep 1000 & echo $! > "+p.requestsPath()+"; wait")
	p.configure("p", "")
	all := p.load()
	d, _, _ := newDriver(t, func(o *Options) { o.Providers = all })
	child := ""
	for timeout := 300 * time.Millisecond; child == "" && timeout < time.Minute; timeout *= 2 { // it may be slow to begin
		all.plugins[0].timeout = timeout
		f := d.Find(t.Context(), pullOf("r.example/a", ""))
		want := fmt.Sprintf("credential provider p: it did not end within %s", timeout)
		if got := strings.Join(f.Problems, ""); got != want {
			t.Errorf("problems %q, want %q", got, want)
		}
		child = strings.TrimSpace(p.requests()[0])
	}
	must.Eventually(t, time.Minute, "its child still runs", func() (string, bool) {
		stat, err := os.ReadFile("/proc/" + child + "/stat")
		return child, err != nil || strings.Contains(string(stat), ") Z ")
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f := d.Find(ctx, pullOf("r.example/a", "")); len(f.Candidates) > 0 {
		t.Error("it ran after the agent's end")
	}
}

func TestCacheOfAPluginIsBounded(t *testing.T) {
	p := newPluginDir(t)
	p.program("p", "exit 1")
	p.configure("p", "")
	one := p.load().plugins[0]
	for i := range maxCached + 10 {
		_, err := one.keep(fmt.Sprint("r.example/", i), cacheKey{}, "", imageResponse())
		must.OK(t, err)
	}
	if n := len(one.cache); n > maxCached {
		t.Errorf("%d outcomes", n)
	}
}

func TestWrongConfigurationOfPluginsIsRefused(t *testing.T) {
	p := newPluginDir(t)
	p.program("p", "exit 0")
	must.OK(t, os.WriteFile(filepath.Join(p.dir, "text"), []byte("x"), 0o600))
	must.OK(t, os.Symlink("/bin/true", filepath.Join(p.dir, "link")))
	for name, want := range map[string]string{
		"missing": "no such file", "text": "is no program", "link": "leads out of the directory", "'..'": "name: want",
		"a/b": "name: want",
	} {
		p.configure(name, "")
		if _, err := LoadProviders(p.config, p.dir, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for more, want := range map[string]string{
		"  unknown: 1\n":              "unknown field",
		"  name: q\n":                 "already set in map",
		"- {name: p}\n":               "two of this name",
		"- {name: q}\n":               "defaultCacheDuration: want a duration",
		"  tokenAttributes: {}\n":     "serviceAccountTokenAudience: it is required",
		"kind: Other\n":               "already set in map",
		"- {name: q, apiVersion: x}":  "apiVersion: found",
		"- {name: q, matchImages: 1}": "cannot unmarshal",
	} {
		p.configure("p", more)
		if _, err := LoadProviders(p.config, p.dir, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", more, err, want)
		}
	}
	for _, c := range [][2]string{{p.config, ""}, {"", p.dir}, {p.config + "x", p.dir}} {
		if _, err := LoadProviders(c[0], c[1], nil); err == nil {
			t.Errorf("%q is accepted", c)
		}
	}
	if all, err := LoadProviders("", "", nil); all != nil || err != nil {
		t.Error(all, err)
	}
}

func TestDirectoryOfConfigurationIsMerged(t *testing.T) {
	p := newPluginDir(t)
	p.program("a", "exit 0")
	p.program("b", "exit 0")
	dir := filepath.Join(filepath.Dir(p.dir), "conf")
	must.OK(t, os.Mkdir(dir, 0o700))
	for _, name := range []string{"b", "a"} {
		p.configure(name, "")
		must.OK(t, os.Rename(p.config, filepath.Join(dir, "9-"+name+".yml")))
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "README"), []byte("text"), 0o600))
	all, err := LoadProviders(dir, p.dir, nil)
	must.OK(t, err)
	if got := fmt.Sprint(all.Names()); got != "[a b]" {
		t.Error(got)
	}
}
