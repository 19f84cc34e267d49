package arch

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// layer says what a directory may import of our own module, so that imports run one way:
//
//	generated types <- messages <- actors <- runtime <- cmd      messages <- bus <- runtime
type layer struct {
	in    string
	allow []string // directories of the main module
	tests bool     // whether the directory's tests are held to it too
}

// layers is read from the top: the first entry that holds a file decides.
var layers = []layer{
	{in: "messages/journaletv1", allow: nil, tests: true},
	{in: "messages", allow: []string{"messages"}, tests: true},
	{in: "actors", allow: []string{"messages", "actors"}, tests: true},
	{in: "bus", allow: []string{"messages", "bus", "runtime/bounded", "runtime/durable"}},
	{in: "runtime/bounded", allow: nil}, // below everything: all that read what others write need it
	{in: "runtime/durable", allow: nil},
	{in: "runtime/clock", allow: nil},
	{in: "runtime/fold", allow: []string{"messages", "actors"}},
	{in: "runtime/history/open", allow: []string{"messages", "bus", "runtime/history"}}, // files
	{in: "runtime/history", allow: []string{"messages", "actors", "runtime/bounded", "runtime/config", "runtime/fold",
		"runtime/history", "runtime/pattern", "runtime/source/manifest"}}, // a reader touches neither runtime nor bus
	{in: "runtime", allow: []string{"messages", "actors", "bus", "runtime"}},
	{in: "cmd", allow: []string{"messages", "actors", "bus", "runtime", "cmd", "deploy/systemd"}},
}

// ban keeps an import to the directories that may know it.
type ban struct {
	pkgs  []string // import paths; each forbids what is below it too, unless it ends in "$"
	in    string   // only here; empty: everywhere
	but   []string // directories exempted
	tests bool     // whether tests are held to it too
	why   string
}

var bans = []ban{
	{in: "actors", why: "a decider performs no I/O: emit an intent, a driver performs it", pkgs: []string{
		"os", "net$", "net/http", "net/rpc", "net/smtp", "syscall", "plugin", "unsafe", "path/filepath", "io/ioutil",
		"golang.org/x/sys", "google.golang.org/grpc", "github.com/nats-io", "k8s.io/client-go",
	}},
	{in: "runtime/fold", why: "a fold is memory and CPU: its caller reads the journal", pkgs: []string{
		"os", "net", "syscall", "sync", "context", "golang.org/x/sys", "google.golang.org/grpc", "github.com/nats-io",
	}},
	{in: "actors", why: "a decider logs nothing: what it has to say is a decision", pkgs: []string{
		"log", "k8s.io/klog", "github.com/sirupsen/logrus",
	}},
	{in: "actors", why: "a decider neither waits nor shares: concurrency is the host's", pkgs: []string{
		"sync", "context", "runtime", "golang.org/x/sync", "k8s.io/apimachinery/pkg/util/wait",
	}},
	{in: "actors", why: "replay must decide the same again: take what was recorded", pkgs: []string{
		"math/rand", "crypto/rand", "hash/maphash", "k8s.io/apimachinery/pkg/util/rand",
		"k8s.io/apimachinery/pkg/util/uuid",
	}},
	{in: "actors", why: "what reflection walks over, and a message's text, differ from build to build", pkgs: []string{
		"reflect", "google.golang.org/protobuf/reflect", "google.golang.org/protobuf/encoding/prototext",
		"google.golang.org/protobuf/encoding/protojson",
	}},
	{in: "actors", pkgs: []string{module + "/messages/kind"},
		why: "what an event means to a person may change, and replay must decide the same again"},
	{in: "runtime/history", why: "what reads a journal reaches no network and starts nothing", pkgs: []string{
		"net$", "net/http", "net/rpc", "os/exec", "google.golang.org/grpc", "github.com/nats-io",
	}},
	{in: "runtime", but: []string{"runtime/program"}, pkgs: []string{"os/exec"},
		why: "a program gets nothing of the agent's environment: start it with package runtime/program"},
	{in: "messages", why: "messages are data: what reads or sends them is in bus or runtime", pkgs: []string{
		"os", "net$", "net/http", "github.com/nats-io", "google.golang.org/grpc",
	}},
	{pkgs: []string{"github.com/asynkron/protoactor-go"}, but: []string{"runtime/host"}, tests: true,
		why: "only runtime/host knows protoactor"},
	{pkgs: []string{"github.com/nats-io"}, but: []string{"bus", "cmd/journalet", "runtime/api/query", "test"},
		why: "NATS is the bus's: take what you need from package bus"},
	{pkgs: []string{module + "/runtime/sim"}, in: "runtime", but: []string{"runtime/sim", "runtime/agent"},
		why: "only the assembly in runtime/agent chooses the simulation over the world"},
	{pkgs: []string{
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/listers",
		"k8s.io/client-go/util/certificate",
	}, but: []string{"test"}, tests: true,
		why: "it registers every group of Kubernetes, 37 MiB: use runtime/cluster/client (ADR 051)"},
	{pkgs: []string{"k8s.io/kubernetes"}, tests: true,
		why: "its replaces would break go install of ours: compare with it in test/oracle"},
}

// actorPackage is all of protoactor that runtime/host may use; its other packages lose or reorder messages.
const actorPackage = "github.com/asynkron/protoactor-go/actor"

// checkImports holds every file of the main module to layers and bans.
func checkImports(t *tree) {
	for _, f := range t.own() {
		for _, spec := range f.ast.Imports {
			pkg, _ := strconv.Unquote(spec.Path.Value) // of what the parser accepted
			for _, why := range refuse(f, pkg) {
				t.report(f.path, t.line(spec.Pos()), "imports %s: %s", pkg, why)
			}
		}
	}
}

// refuse returns why f may not import pkg, nothing if it may.
func refuse(f *file, pkg string) []string {
	var why []string
	if dir, ours := strings.CutPrefix(pkg, module+"/"); ours {
		i := slices.IndexFunc(layers, func(l layer) bool { return within(f.path, l.in) })
		if i >= 0 && (!f.test || layers[i].tests) &&
			!slices.ContainsFunc(layers[i].allow, func(a string) bool { return within(dir, a) }) {
			why = append(why, layers[i].in+" may import of our own only "+list(layers[i].allow))
		}
	}
	if within(pkg, path.Dir(actorPackage)) && within(f.path, "runtime/host") && pkg != actorPackage {
		why = append(why, "of protoactor only the actor package is used")
	}
	for _, b := range bans {
		if b.holds(f) && slices.ContainsFunc(b.pkgs, func(p string) bool { return covers(p, pkg) }) {
			why = append(why, b.why)
		}
	}
	return why
}

func (b ban) holds(f *file) bool {
	return (b.in == "" || within(f.path, b.in)) && (!f.test || b.tests) &&
		!slices.ContainsFunc(b.but, func(dir string) bool { return within(f.path, dir) })
}

func covers(pattern, pkg string) bool {
	if exact, ok := strings.CutSuffix(pattern, "$"); ok {
		return pkg == exact
	}
	return within(pkg, pattern)
}

func list(dirs []string) string {
	if len(dirs) == 0 {
		return "nothing"
	}
	return strings.Join(dirs, ", ")
}
