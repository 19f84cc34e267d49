package cri_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
)

// store is a store of the objects in namespace default. Objects named broken cannot be read.
type store struct {
	objects.Getter
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
	reads      int
}

var errBroken = errors.New("the file of the object is not valid YAML")

func (s *store) find(stored map[string]map[string]string, kind, namespace, name string) (map[string]string, error) {
	s.reads++
	data, ok := stored[name]
	switch {
	case name == "broken":
		return nil, errBroken
	case !ok || namespace != "default":
		return nil, fmt.Errorf("%s %q %w", kind, name, objects.ErrNotFound)
	}
	return data, nil
}

func (s *store) ConfigMap(_ context.Context, owner objects.Owner, name string) (*corev1.ConfigMap, error) {
	data, err := s.find(s.configMaps, "configmap", owner.Namespace, name)
	return &corev1.ConfigMap{Data: data}, err
}

func (s *store) Secret(_ context.Context, owner objects.Owner, name string) (*corev1.Secret, error) {
	data, err := s.find(s.secrets, "secret", owner.Namespace, name)
	out := &corev1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		out.Data[key] = []byte(value)
	}
	return out, err
}

const canary = "canary-7f3a9c"

func newStore() *store {
	return &store{
		configMaps: map[string]map[string]string{
			"settings": {"B": "map-b", "A": "map-a", "some.key": "$(A)"}, "empty": {},
			"big": {"A": strings.Repeat("x", 140<<10)},
		},
		secrets: map[string]map[string]string{
			"login": {"B": "secret-b", "password": canary, "zero": ""},
			"bytes": {"blob": canary + "\xff\xfeA"}, "nul": {"N": canary + "\x00A"},
			"some": {"good": "é", "blob": "\xe9"},
		},
	}
}

func fromMap(name, key string, optional ...bool) corev1.EnvVar {
	ref := &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: ref}}
}

func fromSecret(name, key string, optional ...bool) corev1.EnvVar {
	ref := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}
}

func fromFile(path, key string, optional ...bool) corev1.EnvVar {
	ref := &corev1.FileKeySelector{VolumeName: "scratch", Path: path, Key: key}
	if len(optional) > 0 {
		ref.Optional = &optional[0]
	}
	return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{FileKeyRef: ref}}
}

func allOfMap(name, prefix string, optional bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional,
	}}
}

func allOfSecret(name, prefix string, optional bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional,
	}}
}

// envOf starts the pod's container and returns its variables as NAME=value.
func (r *rig) envOf() []string {
	r.t.Helper()
	var out []string
	r.runtime.Inject(sim.Fault{Method: "CreateContainer", Match: func(req any) bool {
		for _, e := range req.(*runtimeapi.CreateContainerRequest).GetConfig().GetEnvs() {
			out = append(out, e.GetKey()+"="+string(e.GetValue()))
		}
		return false
	}})
	r.done("c", startContainer(r.sandbox(), 0), false)
	return out
}

// envRig returns a rig with a store of objects, and the driver's log.
func envRig(t *testing.T) (r *rig, s *store, c *corev1.Container, log *bytes.Buffer) {
	t.Helper()
	s, log = newStore(), &bytes.Buffer{}
	r = newRig(t, func(o *cri.Options) {
		o.Objects, o.Log = s, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	return r, s, &r.pod.Spec.Containers[0], log
}

func TestVariablesOfObjectsComeBeforeThoseOfTheManifest(t *testing.T) {
	r, store, c, _ := envRig(t)
	named := func(name string, v corev1.EnvVar) corev1.EnvVar { v.Name = name; return v }
	c.EnvFrom = []corev1.EnvFromSource{
		allOfMap("settings", "", false), allOfSecret("login", "", false), allOfMap("settings", "P_", false),
		allOfMap("none", "", true), allOfSecret("none", "", true), allOfMap("empty", "", false),
	}
	c.Env = []corev1.EnvVar{
		{Name: "A", Value: "$(A)+$(password)+$(LATE)"}, named("LATE", fromMap("settings", "some.key")),
		named("C", fromSecret("login", "B")), named("B", fromMap("settings", "none", true)),
		named("P_A", fromSecret("none", "x", true)), named("NOT", fromMap("settings", "none", true)),
		named("ZERO", fromSecret("login", "zero")), {Name: "EMPTY"},
	}
	got := r.envOf()
	want := []string{
		"A=map-a+" + canary + "+$(LATE)", "B=secret-b", "some.key=$(A)", "password=" + canary, "zero=",
		"P_A=map-a", "P_B=map-b", "P_some.key=$(A)", "LATE=$(A)", "C=secret-b", "ZERO=", "EMPTY=",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if store.reads != 6 {
		t.Errorf("%d reads of 5 objects, of which the one that is missing is read twice", store.reads)
	}
}

func TestServicesAddVariablesThatNothingElseSets(t *testing.T) {
	links := []bool{}
	r := newRig(t, func(o *cri.Options) {
		o.ServiceEnv = func(_ context.Context, _ *corev1.Pod, all bool) (map[string]string, error) {
			links = append(links, all)
			return map[string]string{"DB_PORT": "1", "API": "2", "WEB": "3"}, nil
		}
	})
	no := false
	r.pod.Spec.EnableServiceLinks = &no
	r.pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", Value: "$(DB_PORT)"}, {Name: "WEB", Value: "own"}}
	if got := r.envOf(); !slices.Equal(got, []string{"X=1", "WEB=own", "API=2", "DB_PORT=1"}) {
		t.Errorf("got %q", got)
	}
	if !slices.Equal(links, []bool{false}) {
		t.Errorf("service links %v", links)
	}
}

// badEnv are the mistakes in what variables refer to, with the kubelet's words for them.
var badEnv = map[string]struct {
	env     corev1.EnvVar
	envFrom []corev1.EnvFromSource
	says    string
}{
	"no map":        {env: fromMap("none", "A"), says: `configmap "none" not found`},
	"no key":        {env: fromMap("settings", "none"), says: `couldn't find key none in ConfigMap default/settings`},
	"no secret":     {env: fromSecret("none", "A"), says: `secret "none" not found`},
	"no secret key": {env: fromSecret("login", "none"), says: `couldn't find key none in Secret default/login`},
	"broken":        {env: fromMap("broken", "A", true), says: errBroken.Error()},
	"all of no map": {envFrom: []corev1.EnvFromSource{allOfMap("none", "", false)}, says: `configmap "none" not found`},
	"all of no secret": {envFrom: []corev1.EnvFromSource{allOfSecret("none", "", false)},
		says: `secret "none" not found`},
	"broken secret": {envFrom: []corev1.EnvFromSource{allOfSecret("broken", "", true)}, says: errBroken.Error()},
	"too long": {envFrom: []corev1.EnvFromSource{allOfMap("big", "", false)},
		says: "environment variable A: has more than 131071 bytes"},
	"no file":      {env: fromFile("none.env", "A"), says: "couldn't parse env file: open none.env: no such file"},
	"no file key":  {env: fromFile("good.env", "none"), says: `environment variable key "none" not found in file "`},
	"bad file":     {env: fromFile("bad.env", "A", true), says: "couldn't parse env file: line 2: the value is not in"},
	"pipe":         {env: fromFile("pipe", "A", true), says: "couldn't parse env file: open pipe: not a regular"},
	"link outside": {env: fromFile("out", "A"), says: "couldn't parse env file: open out: no such file"},
	"huge file":    {env: fromFile("huge", "A", true), says: "couldn't parse env file: read huge: more than 1048576"},
}

func (r *rig) scratch() string {
	return filepath.Join(r.dir, "root", "pods", uid, "volumes", "kubernetes.io~empty-dir", "scratch")
}

func (r *rig) writeScratch(name, text string) {
	r.t.Helper()
	must.OK(r.t, os.WriteFile(filepath.Join(r.scratch(), name), []byte(text), 0o600))
}

// writeEnvFiles writes files into the pod's volume scratch.
func (r *rig) writeEnvFiles() {
	r.t.Helper()
	r.done("v", &journaletv1.CallRequested{Work: &journaletv1.CallRequested_SetUpVolumes{
		SetUpVolumes: &journaletv1.SetUpVolumes{Digest: digest},
	}}, false)
	dir := r.scratch()
	outside := filepath.Join(r.dir, "outside.env")
	must.OK(r.t, os.WriteFile(outside, []byte("A='"+canary+"'\n"), 0o600))
	for name, text := range map[string]string{
		"good.env": "# written by init\nA='" + canary + "'\nEMPTY=''\n", "bad.env": "B='" + canary + "'\nA=" + canary,
		"huge": strings.Repeat("#\n", 1<<19) + "A='1'", "bytes.env": "A='" + canary + "\xff'\n",
	} {
		r.writeScratch(name, text)
	}
	must.OK(r.t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must.OK(r.t, os.Symlink(outside, filepath.Join(dir, "out")))
	must.OK(r.t, os.Symlink("/good.env", filepath.Join(dir, "in")))
}

// No runtime passes on what is no text. The error names the variable and where its value is from, not the value, and
// the object may be fixed.
func TestVariablesThatAreNoTextAreRefusedByName(t *testing.T) {
	named := func(name string, v corev1.EnvVar) corev1.EnvVar { v.Name = name; return v }
	x := "environment variable X, from key blob of Secret default/bytes, has bytes that are not UTF-8"
	for name, c := range map[string]struct {
		set  func(*corev1.Container)
		says string
	}{
		"key": {func(c *corev1.Container) { c.Env = []corev1.EnvVar{fromSecret("bytes", "blob")} }, x},
		"NUL": {func(c *corev1.Container) { c.Env = []corev1.EnvVar{fromSecret("nul", "N")} },
			"environment variable X, from key N of Secret default/nul, has a NUL byte"},
		"all keys": {func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{allOfSecret("some", "P_", true)} },
			"environment variable P_blob, from key blob of Secret default/some, has bytes that are not UTF-8"},
		"argument": {func(c *corev1.Container) {
			c.Env, c.Args = []corev1.EnvVar{fromSecret("bytes", "blob")}, []string{"$(X)"}
		}, x},
		"command": {func(c *corev1.Container) {
			c.Env, c.Command = []corev1.EnvVar{fromSecret("bytes", "blob")}, []string{"sh", "$(X)"}
		}, x},
		"another variable": {func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{fromSecret("bytes", "blob"), {Name: "Y", Value: "$(X)"}, {Name: "X", Value: "text"}}
		}, "environment variable Y has bytes that are not UTF-8"},
		"itself": {func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{fromSecret("bytes", "blob"), {Name: "X", Value: "$(X)"}}
		}, "environment variable X has bytes that are not UTF-8"},
		"path": {func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{fromSecret("bytes", "blob")}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/s", SubPathExpr: "$(X)"}}
		}, x},
		"file": {func(c *corev1.Container) { c.Env = []corev1.EnvVar{fromFile("bytes.env", "A")} },
			"environment variable X, from key A of the file bytes.env in volume scratch, has bytes that are not UTF-8"},
		"replaced, also where it came from": {func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{allOfSecret("bytes", "", false), allOfSecret("some", "", false)}
			c.Env = []corev1.EnvVar{named("blob", fromSecret("nul", "N"))}
		}, "environment variable blob, from key N of Secret default/nul, has a NUL byte"},
	} {
		t.Run(name, func(t *testing.T) {
			r, store, container, log := envRig(t)
			r.writeEnvFiles()
			c.set(container)
			t.Cleanup(func() {
				sub, _ := filepath.Glob(filepath.Join(r.dir, "root/pods/*/volume-subpaths/*/*/*"))
				for _, path := range sub {
					_ = unix.Unmount(path, unix.MNT_DETACH)
				}
			})
			sandbox := r.sandbox()
			out := r.fails("c", startContainer(sandbox, 0), journaletv1.CallError_CALL_ERROR_CONFIG, c.says)
			if !out.GetRetryable() || strings.Contains(out.String()+log.String(), canary) {
				t.Errorf("outcome %v and log %s: other contents cure it, and nothing shows them", out, log)
			}
			for _, keys := range store.secrets {
				for key := range keys {
					keys[key] = "text"
				}
			}
			r.writeScratch("bytes.env", "A='text'\n")
			r.done("again", startContainer(sandbox, 0), false)
		})
	}
}

// What env replaces is not passed on.
func TestReplacedVariableMayBeAnything(t *testing.T) {
	r, _, c, _ := envRig(t)
	c.EnvFrom = []corev1.EnvFromSource{allOfSecret("some", "", false)}
	c.Env = []corev1.EnvVar{{Name: "blob", Value: "text"}}
	if got := r.envOf(); !slices.Equal(got, []string{"blob=text", "good=é"}) {
		t.Errorf("got %q", got)
	}
}

func TestMissingContentsFailTheStartInTheKubeletsWords(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(badEnv)) {
		c := badEnv[name]
		t.Run(name, func(t *testing.T) {
			r, _, container, _ := envRig(t)
			r.writeEnvFiles()
			container.EnvFrom = c.envFrom
			if c.env.Name != "" {
				container.Env = []corev1.EnvVar{c.env}
			}
			out := r.fails("c", startContainer(r.sandbox(), 0), journaletv1.CallError_CALL_ERROR_CONFIG, c.says)
			if !strings.HasPrefix(out.GetMessage(), c.says) || !out.GetRetryable() {
				t.Errorf("outcome %v: wants the kubelet's words and nothing before them; other contents cure it", out)
			}
			if strings.Contains(out.String(), canary) {
				t.Errorf("the outcome shows what is secret: %v", out)
			}
		})
	}
}

func TestWithoutAStoreReferencesFail(t *testing.T) {
	for _, c := range []struct {
		env  corev1.EnvVar
		says string
	}{
		{fromMap("settings", "A", true), "couldn't get configMap default/settings, the agent has no store"},
		{fromSecret("login", "A", true), "couldn't get secret default/login, the agent has no store"},
	} {
		r := newRig(t, nil)
		r.pod.Spec.Containers[0].Env = []corev1.EnvVar{c.env}
		out := r.fails("c", startContainer(r.sandbox(), 0), journaletv1.CallError_CALL_ERROR_CONFIG, c.says)
		if out.GetRetryable() {
			t.Errorf("outcome %v: no other contents cure it", out)
		}
	}
}

func TestVariablesOfFilesAreReadWithinTheirVolume(t *testing.T) {
	r, _, c, _ := envRig(t)
	r.writeEnvFiles()
	named := func(name string, v corev1.EnvVar) corev1.EnvVar { v.Name = name; return v }
	c.Env = []corev1.EnvVar{
		named("GOOD", fromFile("good.env", "A")), named("LINK", fromFile("in", "A")),
		named("NO_FILE", fromFile("none.env", "A", true)), named("NO_KEY", fromFile("good.env", "none", true)),
		named("NO_VALUE", fromFile("good.env", "EMPTY", true)),
	}
	if got := r.envOf(); !slices.Equal(got, []string{"GOOD=" + canary, "LINK=" + canary}) {
		t.Errorf("got %q", got)
	}
}

// A runtime repeats in its errors what it was given. What came from objects and files stays out of the outcome and of
// the log, as what came from the manifest does.
func TestContentsStayOutOfOutcomesAndLogs(t *testing.T) {
	password := fromSecret("login", "password")
	for _, method := range []string{"CreateContainer", "StartContainer"} {
		for name, set := range map[string]func(*corev1.Container){
			"secret": func(c *corev1.Container) { c.Env = []corev1.EnvVar{password} },
			"whole":  func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{allOfSecret("login", "P_", false)} },
			"file":   func(c *corev1.Container) { c.Env = []corev1.EnvVar{fromFile("good.env", "A")} },
			"in an argument": func(c *corev1.Container) {
				c.Env, c.Args = []corev1.EnvVar{password}, []string{"--p=$(X)"}
			},
			"in another": func(c *corev1.Container) { c.Env = []corev1.EnvVar{password, {Name: "Y", Value: "p=$(X)"}} },
			"manifest":   func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "X", Value: canary}} },
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				r, _, c, log := envRig(t)
				r.writeEnvFiles()
				set(c)
				says := "exec: env X=p=" + canary + " is bad"
				r.runtime.Inject(sim.Fault{Method: method, Err: status.Error(codes.DeadlineExceeded, says), Times: 1})
				r.runtime.Inject(sim.Fault{Method: method, Err: status.Error(codes.Unknown, says)})
				sandbox := r.sandbox()
				out := r.perform("c", startContainer(sandbox, 0), false)
				if out.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
					t.Fatal("no error")
				}
				text := out.String() + log.String()
				if strings.Contains(text, canary) || !strings.Contains(text, "is bad") || !strings.Contains(text, "in doubt") {
					t.Errorf("outcome and log: %s", text)
				}
			})
		}
	}
}
