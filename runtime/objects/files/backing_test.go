package files

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// deadline bounds the wait for a notification.
const deadline = time.Minute

// rig is a backing that runs on directories of the test.
type rig struct {
	*testing.T
	*Backing
	dir   string
	log   lockedBuffer
	batch chan map[objects.Key]objects.Object
	done  chan error
}

func newRig(t *testing.T, set func(*rig, *Options)) *rig {
	r := &rig{T: t, dir: t.TempDir(), batch: make(chan map[objects.Key]objects.Object, 100), done: make(chan error, 1)}
	must.OK(t, os.Mkdir(filepath.Join(r.dir, "pods"), 0o700))
	must.OK(t, os.Mkdir(filepath.Join(r.dir, "objects"), 0o700))
	// The reread never comes: notifications have to do.
	o := Options{Manifests: r.path("pods"), Objects: r.path("objects"), Reread: time.Hour,
		Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	if set != nil {
		set(r, &o)
	}
	r.Backing = New(o)
	return r
}

// start runs the backing until the test ends.
func (r *rig) start() *rig {
	ctx, cancel := context.WithCancel(r.Context())
	go func() { r.done <- r.Backing.Run(ctx, func(b map[objects.Key]objects.Object) { r.batch <- b }) }()
	r.Cleanup(func() {
		cancel()
		if err := <-r.done; !errors.Is(err, context.Canceled) {
			r.Error("the backing ended with", err)
		}
	})
	return r
}

// Watch watches an object that no pod has yet.
func (r *rig) Watch(k objects.Key) { r.Backing.Watch(k, "") }

func (r *rig) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

func (r *rig) write(name, text string) {
	r.Helper()
	must.OK(r, os.WriteFile(r.path(name)+".new", []byte(text), 0o600))
	must.OK(r, os.Rename(r.path(name)+".new", r.path(name)))
}

// reads wants the next batch to be this.
func (r *rig) reads(want ...string) {
	r.Helper()
	select {
	case batch := <-r.batch:
		got := map[string]bool{}
		for k, o := range batch {
			got[show(k, o)] = true
		}
		for _, w := range want {
			if !got[w] {
				r.Fatalf("read %v, want %q", got, want)
			}
		}
		if len(got) != len(want) {
			r.Fatalf("read %v, want %q", got, want)
		}
	case <-time.After(deadline):
		r.Fatalf("nothing read, want %q; the log:\n%s", want, r.log.String())
	}
}

// logs waits for a text in the log, so often.
func (r *rig) logs(text string, times int) {
	r.Helper()
	if got := strings.Count(r.log.String(), text); got != times {
		r.Errorf("%q is %d times in the log, want %d:\n%s", text, got, times, r.log.String())
	}
}

func show(k objects.Key, o objects.Object) string {
	text := k.Name + " " + strings.TrimPrefix(o.State.String(), "OBJECT_STATE_")
	if o.ConfigMap != nil {
		text += " " + o.ConfigMap.Data["k"]
	}
	if o.Secret != nil {
		text += " " + string(o.Secret.Data["k"])
	}
	if o.Immutable {
		text += " immutable"
	}
	if strings.Contains(string(o.Data), "BEGIN CERTIFICATE") {
		text += fmt.Sprintf(" %d certificates", bytes.Count(o.Data, []byte("BEGIN CERTIFICATE")))
	} else if o.Data != nil {
		text += " " + string(o.Data)
	}
	if o.Message != "" {
		text += ": " + o.Message
	}
	return text
}

func key(kind journaletv1.ObjectKind, name string) objects.Key {
	return objects.Key{Kind: kind, Namespace: "default", Name: name}
}

const (
	configMap   = journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP
	secret      = journaletv1.ObjectKind_OBJECT_KIND_SECRET
	token       = journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN
	trustBundle = journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE
)

func configMapYAML(name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {k: %q}\n", name, value)
}

func secretYAML(name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {k: %q}\n", name, value)
}

func TestObjectsAreReadWhileWatched(t *testing.T) {
	r := newRig(t, nil)
	r.write("pods/web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {}\n"+configMapYAML("a", "1"))
	r.write("objects/all.yaml", secretYAML("b", "2")+configMapYAML("other", "x"))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT 1")
	r.Watch(key(secret, "b"))
	r.reads("b PRESENT 2")
	r.Watch(key(configMap, "none"))
	r.reads(`none MISSING: configmap "none" not found`)
	r.write("objects/none.yaml", configMapYAML("none", "now"))
	r.reads("none PRESENT now")
	r.write("pods/web.yaml", configMapYAML("a", "2")+"immutable: true\n")
	r.reads("a PRESENT 2 immutable")
	must.OK(t, os.Remove(r.path("objects/none.yaml")))
	r.reads(`none MISSING: configmap "none" not found`)
	r.Unwatch(key(secret, "b"))
	r.write("objects/all.yaml", secretYAML("b", "3"))
	r.write("objects/none.yaml", configMapYAML("none", "again"))
	r.reads("none PRESENT again")
}

// A change is read by its notification alone: without a reread and without a sync by the clock.
func TestChangeOfAFileIsReadWithoutAReread(t *testing.T) {
	r := newRig(t, nil)
	r.write("objects/a.yaml", configMapYAML("a", "1"))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT 1")
	for i := range 5 {
		began := time.Now()
		r.write("objects/a.yaml", configMapYAML("a", fmt.Sprint("new", i)))
		r.reads(fmt.Sprint("a PRESENT new", i))
		strict.Within(t, "the reading of a change", time.Since(began), time.Second)
	}
}

func TestMountedDirectoryIsReadAgainWhenItsLinkIsSwapped(t *testing.T) {
	r := newRig(t, nil)
	set := func(version string) {
		must.OK(t, os.Mkdir(r.path("objects", version), 0o700))
		r.write("objects/"+version+"/a.yaml", configMapYAML("a", version))
		must.OK(t, os.Symlink(version, r.path("objects/..tmp")))
		must.OK(t, os.Rename(r.path("objects/..tmp"), r.path("objects/..data")))
	}
	set("..v1")
	must.OK(t, os.Symlink("..data/a.yaml", r.path("objects/a.yaml")))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT ..v1")
	set("..v2")
	r.reads("a PRESENT ..v2")
}

func TestBrokenFileKeepsWhatWasReadBefore(t *testing.T) {
	r := newRig(t, nil)
	r.write("objects/a.yaml", configMapYAML("a", "1")+configMapYAML("b", "1"))
	r.write("objects/z.yaml", configMapYAML("z", "1"))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT 1")
	r.Watch(key(configMap, "b"))
	r.reads("b PRESENT 1")
	r.Watch(key(configMap, "z"))
	r.reads("z PRESENT 1")
	// One object of it.
	r.write("objects/a.yaml", configMapYAML("a", "2")+
		"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: 5}\n")
	problem := r.path("objects/a.yaml") + ":7: data: wants a mapping, found a number; write it as key: value"
	r.reads("a PRESENT 2", "b UNREADABLE 1: "+problem)
	r.logs("object problem", 1)
	// The whole file.
	r.write("objects/a.yaml", "a: [\n")
	batch := <-r.batch
	for k, o := range batch {
		if text := show(k, o); !strings.Contains(text, "UNREADABLE") || !strings.Contains(text, "not valid YAML") ||
			k.Name == "a" && o.ConfigMap.Data["k"] != "2" || k.Name == "b" && o.ConfigMap.Data["k"] != "1" {
			t.Error(text)
		}
	}
	if len(batch) != 2 {
		t.Error(batch)
	}
	// What may be in it is missing with the reason.
	r.Watch(key(configMap, "c"))
	for k, o := range <-r.batch {
		if text := show(k, o); !strings.Contains(text, "c MISSING: configmap \"c\" not found; "+r.path("objects/a.yaml")) {
			t.Error(text)
		}
	}
	r.logs("object problem", 2)
	r.write("objects/a.yaml", configMapYAML("a", "2")+configMapYAML("b", "3")+configMapYAML("c", "3"))
	r.reads("a PRESENT 2", "b PRESENT 3", "c PRESENT 3")
}

func TestFirstOfTwoObjectsCounts(t *testing.T) {
	r := newRig(t, nil)
	r.write("objects/a.yaml", configMapYAML("a", "third"))
	r.write("pods/2.yaml", configMapYAML("a", "second"))
	r.write("pods/1.yaml", configMapYAML("a", "first"))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT first")
	r.logs("duplicate object", 2)
	must.OK(t, os.Remove(r.path("pods/1.yaml")))
	r.reads("a PRESENT second")
	r.logs("duplicate object", 2)
}

// A copy with a mistake, in a file before the object's own, must not keep pods from what can be read.
func TestObjectThatWasNeverReadHidesNone(t *testing.T) {
	const mistake = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: 5}\n"
	r := newRig(t, nil)
	r.write("pods/1.yaml", mistake)
	r.write("pods/2.yaml", configMapYAML("a", "second"))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT second")
	// From now on pods have the second one.
	r.write("pods/1.yaml", configMapYAML("a", "first"))
	r.write("pods/2.yaml", configMapYAML("a", "third"))
	r.reads("a PRESENT third")
}

func TestPathThatCannotBeReadIsNotAMissingObject(t *testing.T) {
	r := newRig(t, func(r *rig, o *Options) { o.Objects = r.path("loop") })
	must.OK(t, os.Symlink("loop", r.path("loop")))
	r.write("pods/a.yaml", configMapYAML("a", "1"))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT 1")
	r.Watch(key(configMap, "b"))
	for k, o := range <-r.batch {
		if text := show(k, o); !strings.HasPrefix(text, "b UNREADABLE: stat ") {
			t.Error(text)
		}
	}
}

func TestSharedFileOfSecretsIsWarnedOfOnce(t *testing.T) {
	r := newRig(t, nil)
	r.write("objects/s.yaml", secretYAML("s", "hunter2"))
	r.write("objects/c.yaml", configMapYAML("c", "x"))
	must.OK(t, os.Chmod(r.path("objects/s.yaml"), 0o644))
	must.OK(t, os.Chmod(r.path("objects/c.yaml"), 0o644))
	r.start()
	r.Watch(key(secret, "s"))
	r.reads("s PRESENT hunter2")
	r.logs("others than its owner", 1)
	must.OK(t, os.WriteFile(r.path("objects/s.yaml"), []byte(secretYAML("s", "hunter3")), 0o600)) // the mode stays
	r.reads("s PRESENT hunter3")
	r.logs("others than its owner", 1)
	r.logs("hunter", 0)
}

func TestTokensComeFromFilesAndSecrets(t *testing.T) {
	r := newRig(t, func(r *rig, o *Options) {
		o.Tokens = map[string]string{"default/robot": r.path("robot"), "default/dir": r.path("objects")}
	})
	must.OK(t, os.WriteFile(r.path("robot"), []byte("a.b.c\n"), 0o600))
	r.write("objects/sa.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: t, annotations: "+
		"{kubernetes.io/service-account.name: cleaner}}, type: kubernetes.io/service-account-token, "+
		"stringData: {token: d.e.f}}")
	r.start()
	r.Watch(key(token, "robot"))
	r.reads("robot PRESENT a.b.c")
	r.Watch(key(token, "cleaner"))
	r.reads("cleaner PRESENT d.e.f")
	r.Watch(key(token, "none"))
	r.reads("none MISSING: no token of service account default/none: name a file with --service-account-token-file " +
		"default/none=PATH, or write a Secret of type kubernetes.io/service-account-token")
	r.Watch(key(token, "dir"))
	r.reads("dir UNREADABLE: " + r.path("objects") +
		" is a directory; name a file; check that the agent may read the path")
	r.Unwatch(key(token, "none"))
	r.write("robot", "g.h.i")
	r.reads("robot PRESENT g.h.i")
	r.write("robot", "two words")
	r.reads("robot UNREADABLE g.h.i: " + r.path("robot") +
		": holds more than one token; write the token and nothing else")
	must.OK(t, os.Remove(r.path("robot")))
	r.reads("robot MISSING: no token of service account default/robot: there is no file " + r.path("robot"))
	r.logs("g.h.i", 0)
}

func authority(t *testing.T, serial int64) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	must.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func bundleYAML(name, signer, label, certificates string) string {
	return fmt.Sprintf("---\napiVersion: certificates.k8s.io/v1\nkind: ClusterTrustBundle\nmetadata: "+
		"{name: %q, labels: {for: %s}}\nspec: {signerName: %q, trustBundle: %q}\n", name, label, signer, certificates)
}

func TestTrustBundlesAreJoined(t *testing.T) {
	r := newRig(t, nil)
	one, two := authority(t, 1), authority(t, 2)
	r.write("objects/b.yaml", bundleYAML("own", "", "x", "text before\n"+one)+
		bundleYAML("example.com:ca:1", "example.com/ca", "web", one+two)+
		bundleYAML("example.com:ca:2", "example.com/ca", "web", two)+
		bundleYAML("example.com:ca:3", "example.com/ca", "mail", authority(t, 3)))
	r.start()
	for _, c := range []struct{ name, selector, want string }{
		{"own", "", "own PRESENT 1 certificates"},
		{"none", "", `none MISSING: while getting ClusterTrustBundle: ` +
			`clustertrustbundle.certificates.k8s.io "none" not found`},
		{"", `{"signerName":"example.com/ca","labelSelector":{"matchLabels":{"for":"web"}},"path":""}`,
			" PRESENT 2 certificates"},
		{"", `{"signerName":"example.com/ca","labelSelector":{}}`, " PRESENT 3 certificates"},
		{"", `{"signerName":"example.com/ca"}`,
			" MISSING: combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		{"", `nonsense`, " UNREADABLE: the label selector of the trust bundles cannot be read"},
	} {
		k := objects.Key{Kind: trustBundle, Name: c.name, Selector: c.selector}
		r.Watch(k)
		r.reads(c.want)
		r.Unwatch(k)
	}
}

// Whatever is in the directory, nothing hangs, nothing grows without bounds, and other objects are read.
func TestHostileFilesHarmNoOtherObject(t *testing.T) {
	r := newRig(t, nil)
	must.OK(t, unix.Mkfifo(r.path("objects/fifo.yaml"), 0o600))
	for name, target := range map[string]string{"zero": "/dev/zero", "self": "self", "nowhere": "/nonexistent",
		"proc": "/proc/self/environ", "dir": "/etc"} {
		must.OK(t, os.Symlink(target, r.path("objects", name+".yaml")))
	}
	must.OK(t, os.Mkdir(r.path("objects/sub.yaml"), 0o700))
	huge, err := os.Create(r.path("objects/huge.yaml"))
	must.OK(t, err)
	must.OK(t, huge.Truncate(1<<40))
	must.OK(t, huge.Close())
	r.write("objects/deep.yaml", strings.Repeat("[", 100000))
	r.write("objects/deeper.json", strings.Repeat(`{"a":`, 100000))
	r.write("objects/aliases.yaml", "a: &a [x,x,x,x,x,x,x,x]\n"+strings.Repeat("b: &a [*a,*a,*a,*a,*a,*a,*a,*a]\n", 30))
	r.write("objects/big.yaml", configMapYAML("big", strings.Repeat("x", 2<<20)))
	r.write("objects/\xff.yaml", configMapYAML("bytes", "x"))
	r.write("objects/good.yaml", configMapYAML("good", "1"))
	r.start()
	r.Watch(key(configMap, "good"))
	r.reads("good PRESENT 1")
	r.write("objects/good.yaml", configMapYAML("good", "2"))
	r.reads("good PRESENT 2")
	r.logs("not a regular file", 4) // fifo, zero, sub, dir
}

func TestContentsInMemoryAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, o *Options) { o.total = 1000 })
	r.write("objects/a.yaml", configMapYAML("a", strings.Repeat("x", 900)))
	r.start()
	r.Watch(key(configMap, "a"))
	r.reads("a PRESENT " + strings.Repeat("x", 900))
	r.Watch(key(configMap, "b"))
	r.reads(`b MISSING: configmap "b" not found`)
	r.write("objects/b.yaml", configMapYAML("b", "1"))
	r.reads(`b MISSING: configmap "b" not found; ` + r.path("objects/b.yaml") + ": more than 1000 bytes of objects in " +
		r.path("objects") + "; move some of them elsewhere")
	r.write("objects/a.yaml", configMapYAML("a", "short"))
	r.reads("a PRESENT short")
	r.write("objects/b.yaml", configMapYAML("b", "2"))
	r.reads("b PRESENT 2")
}

func TestNothingIsReadWhileNothingIsWatched(t *testing.T) {
	r := newRig(t, nil)
	r.write("objects/a.yaml", configMapYAML("a", "1"))
	r.start()
	k := key(configMap, "a")
	r.Watch(k)
	r.reads("a PRESENT 1")
	r.Unwatch(k)
	r.Watch(k)
	r.reads("a PRESENT 1")
}

func TestSecretsAreNotInTheLog(t *testing.T) {
	r := newRig(t, nil)
	for i, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {k: [hunter2]}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: hunter2}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {k: \"hunter2}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  k: hunter2\n bad: hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/dockercfg\n" +
			"stringData: {.dockercfg: hunter2}\n",
		"{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"stringData\":{\"k\":\"hunter2}",
		"apiVersion: v1\nkind: secret\nstringData: {k: hunter2}\n",
	} {
		r.write(fmt.Sprintf("objects/%d.yaml", i), text)
	}
	r.start()
	r.Watch(key(secret, "a"))
	for k, o := range <-r.batch {
		if text := show(k, o); strings.Contains(text, "hunter2") {
			t.Error(text)
		}
	}
	r.logs("object problem", 8)
	r.logs("hunter2", 0)
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestPathIsInspectedOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "all.yaml")
	must.OK(t, os.WriteFile(path, []byte(configMapYAML("a", "1")+configMapYAML("b", "1")+secretYAML("c", "hunter2")+
		"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: d}, data: 5}\n"), 0o644))
	found, problems := Inspect(dir)
	if fmt.Sprint(found) != "map[ConfigMap:2 Secret:1]" || len(problems) != 2 ||
		!strings.HasPrefix(problems[0], path+": others than its owner") ||
		!strings.HasPrefix(problems[1], path+":17: data: wants a mapping") {
		t.Errorf("%v %q", found, problems)
	}
	if found, problems := Inspect(filepath.Join(dir, "missing")); len(found)+len(problems) > 0 {
		t.Errorf("%v %q", found, problems)
	}
}
