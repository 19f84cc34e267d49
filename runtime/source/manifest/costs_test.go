package manifest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// What Decode may cost for any manifest: constants, and factors of the manifest's bytes. Both are several times what a
// pod of an author costs; without bounds, the manifests below cost hours, or all memory.
const (
	allowedTime         = 5 * time.Second
	allowedTimePerByte  = 2 * time.Microsecond
	allowedBytes        = 256 << 20
	allowedBytesPerByte = 64
	// slowestMachine is how many times longer it may take where times are not held: on slow cores, with the race detector.
	slowestMachine = 12
)

// repeated returns text again and again, n bytes in all.
func repeated(text string, n int) string { return strings.Repeat(text, n/len(text)) }

// numbered returns the texts of 0, 1, 2, ..., about n bytes in all.
func numbered(n int, text func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(text(i))
	}
	return b.String()
}

const podHead = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: b\n"

// costly are manifests that once cost more than their bytes, or would if a bound were missing: by name, about n bytes.
var costly = map[string]func(n int) string{
	"nested JSON":          func(n int) string { return `{"a":` + repeated("[", n) },
	"nested JSON objects":  func(n int) string { return repeated(`{"a":`, n) },
	"nested flow YAML":     func(n int) string { return "a: " + repeated("[", n) },
	"nested block YAML":    func(n int) string { return repeated("- ", n) },
	"tiny values in JSON":  func(n int) string { return `{"a":[0` + repeated(",0", n) + "]}" },
	"tiny objects in JSON": func(n int) string { return `{"a":[{}` + repeated(",{}", n) + "]}" },
	"tiny values in YAML":  func(n int) string { return "a: [" + repeated("a,", n) + "]" },
	"tiny items in YAML":   func(n int) string { return "a:\n" + repeated("-\n", n) },
	"tiny keys in YAML":    func(n int) string { return "a: [" + repeated("a: ,", n) + "]" },
	"tiny documents":       func(n int) string { return repeated("---\na\n", n) },
	"broken documents":     func(n int) string { return repeated("--- !a b\n", n) },
	"broken JSON":          func(n int) string { return `{"a":[0` + repeated(",0", n) },
	"numbers": func(n int) string {
		return "a: [" + numbered(n, func(i int) string { return fmt.Sprintf("%d.5,", i) }) + "]"
	},
	"odd numbers": func(n int) string {
		return "a: [" + numbered(n, func(i int) string { return fmt.Sprintf("%dm,", i) }) + "]"
	},
	"directives": func(n int) string {
		return numbered(n, func(i int) string { return fmt.Sprintf("%%TAG !%d! x\n", i) }) + "--- a"
	},
	"comments": func(n int) string { return repeated("#\n", n) + "a: b" },
	"long aliases": func(n int) string {
		return podHead + "    args: [&a " + repeated("x", 64<<10) + repeated(", *a", n) + "]\n"
	},
	"few long aliases": func(n int) string {
		return podHead + "    args: [&a " + repeated("x", n/2) + repeated(", *a", min(n/2, 512<<10)) + "]\n"
	},
	"nested aliases": func(int) string {
		text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
		for i := 1; i < 40; i++ {
			text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
		}
		return text
	},
	"merged aliases": func(n int) string {
		return "a: &a {" + numbered(n/4, func(i int) string { return fmt.Sprintf("k%d: v, ", i) }) + "}\nb:\n" +
			repeated("- {<<: *a}\n", n/2)
	},
	"pods by alias": func(n int) string {
		return "apiVersion: v1\nkind: PodList\nitems:\n- &p {metadata: {name: a}, " +
			"spec: {containers: [{name: c, image: b}]}}\n" + repeated("- *p\n", n)
	},
	"large pods by alias": func(n int) string {
		return "apiVersion: v1\nkind: PodList\nitems:\n- &p {metadata: {name: a}, spec: {containers: " +
			"[{name: c, image: b, args: [" + repeated("x", 1<<20) + "]}]}}\n" + repeated("- *p\n", n)
	},
	"broken pods":      func(n int) string { return repeated("---\nkind: Pod\napiVersion: v1\n", n) },
	"empty containers": func(n int) string { return podHead + repeated("  - {}\n", n) },
	"containers": func(n int) string {
		return podHead + numbered(n, func(i int) string { return fmt.Sprintf("  - {name: c%d, image: b}\n", i) })
	},
	"unknown fields": func(n int) string {
		return podHead + numbered(n, func(i int) string { return fmt.Sprintf("    a%d: b\n", i) })
	},
	"a long unknown field": func(n int) string { return podHead + "    ? " + repeated("x", n) + "\n    : b\n" },
	"bad labels": func(n int) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n" +
			numbered(n, func(i int) string { return fmt.Sprintf("    k%d: -\n", i) })
	},
	"annotations": func(n int) string {
		return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n" +
			numbered(n, func(i int) string { return fmt.Sprintf("    k%d: v\n", i) })
	},
	"probe commands": func(n int) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("  - {name: c%d, image: b, env: [{name: A, value: %s}], "+
				"livenessProbe: {exec: {command: [%s]}}}\n", i, strings.Repeat("x", 4<<10), strings.Repeat("$(A)", 512))
		})
	},
	"escapes":       func(n int) string { return podHead + "    args: [\"" + repeated("&", n) + "\"]\n" },
	"a long number": func(n int) string { return podHead + "    ports: [{containerPort: " + repeated("1", n) + "}]\n" },
	"a long quantity": func(n int) string {
		return podHead + "    resources: {limits: {memory: " + repeated("1", n) + "}}\n"
	},
	"a long line": func(n int) string { return "a: " + repeated("b", n) },
	"blank lines": func(n int) string { return "a: b\n" + repeated("\n", n) + "c" },
	"a template":  func(n int) string { return repeated("--- !{{ b\n", n) },
}

// threadTime returns the CPU time that this thread has used.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must.OK(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// checkCost decodes a manifest, and fails if that costs more than its bytes justify.
func checkCost(t *testing.T, data []byte) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	cpu := threadTime(t)
	pods, problems := Decode("costly.yaml", data, Options{NodeName: fuzzNode})
	took, cpu := time.Since(begun), threadTime(t)-cpu
	runtime.ReadMemStats(&after)
	may := allowedTime + time.Duration(len(data))*allowedTimePerByte
	strict.Within(t, fmt.Sprintf("decoding %d bytes", len(data)), took, may)
	if cpu > slowestMachine*may && !strict.Race {
		t.Errorf("%d bytes took %v of CPU time, may take %v", len(data), cpu, slowestMachine*may)
	}
	used := after.TotalAlloc - before.TotalAlloc
	if may := uint64(allowedBytes + allowedBytesPerByte*len(data)); used > may && !strict.Race {
		t.Errorf("%d bytes allocated %d, may allocate %d", len(data), used, may)
	}
	if len(pods) > MaxPods || len(problems) > MaxProblems+1 {
		t.Errorf("%d pods and %d problems", len(pods), len(problems))
	}
	t.Logf("%d bytes: %d pods, %d problems, %v, %d MiB allocated", len(data), len(pods), len(problems),
		took.Round(time.Millisecond), used>>20)
}

func TestManifestsCostWhatTheirBytesJustify(t *testing.T) {
	for name, text := range costly {
		for _, n := range []int{256 << 10, int(DefaultMaxBytes) - 4096} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) { checkCost(t, []byte(text(n))) })
		}
	}
}
