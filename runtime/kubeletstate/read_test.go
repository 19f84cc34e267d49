package kubeletstate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// The pods of the recorded files, which the kubelet's own code has written (test/oracle).
const (
	web = "0b5a1f3e-3c5f-4d7a-9f0e-5a2f6f1f0001"
	job = "0b5a1f3e-3c5f-4d7a-9f0e-5a2f6f1f0002"
)

var versions = []string{"v1.36", "v1.37"}

// root returns a root directory with the recorded files of a version.
func root(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"device-plugins", "pods/" + web, "pods/" + job} {
		must.OK(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join("testdata", version, strings.ReplaceAll(f.name, "/", "_")))
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, f.name), data, 0o600))
	}
	return dir
}

func summary(s *journaletv1.KubeletState) string {
	var out []string
	for uid, p := range s.GetPods() {
		for _, c := range p.GetExclusive() {
			out = append(out, fmt.Sprint(uid[len(uid)-1:], " ", c.GetContainer(), " ", c.GetCpus(), c.GetMemoryNodes()))
		}
		for _, d := range p.GetDevices() {
			out = append(out, fmt.Sprint(uid[len(uid)-1:], " ", d.GetContainer(), " ", d.GetResource(), d.GetIds()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func TestRecordedFilesAreRead(t *testing.T) {
	want := "1 init 2-3[0]; 1 main 2-3,6[0 1]; 1 main example.com/gpu[gpu-0 gpu-1 gpu-7]; " +
		`1 main example.com/nic[nic "0"]; 2 main 7[]`
	for _, version := range versions {
		s := Read(root(t, version))
		if got := summary(s); got != want || len(s.GetProblems()) > 0 {
			t.Errorf("%s: got %s, %q", version, got, s.GetProblems())
		}
	}
}

func TestNothingIsReadWhereNoKubeletWas(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if s := Read(dir); s != nil {
			t.Errorf("got %v", s)
		}
	}
}

// A pod without a directory has gone; the kubelet clears its files later.
func TestPodsWithoutDirectoryAreLeftOut(t *testing.T) {
	dir := root(t, "v1.37")
	must.OK(t, os.RemoveAll(filepath.Join(dir, "pods", web)))
	must.OK(t, os.WriteFile(filepath.Join(dir, "pods", web), nil, 0o600))
	if got := summary(Read(dir)); got != "2 main 7[]" {
		t.Errorf("got %s", got)
	}
}

// Each file is spoiled in each way: it is left out with a message that names it, and the others are read.
func TestDamagedFileIsLeftOut(t *testing.T) {
	replace := func(data []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) { must.OK(t, os.WriteFile(path, data, 0o600)) }
	}
	ways := map[string]func(t *testing.T, path string){
		"is empty": replace(nil), "is no JSON": replace([]byte("\x00\xff\xfe")), "is a list": replace([]byte("[1]")),
		"is deep": replace(bytes.Repeat([]byte(`{"Data":`), 200_000)),
		"is huge": func(t *testing.T, path string) { must.OK(t, os.Truncate(path, 1<<40)) },
		"is a link": func(t *testing.T, path string) {
			must.OK(t, os.Rename(path, path+".x"))
			must.OK(t, os.Symlink(path+".x", path))
		},
		"is a pipe": func(t *testing.T, path string) {
			must.OK(t, os.Remove(path))
			must.OK(t, unix.Mkfifo(path, 0o600))
		},
		"is a directory": func(t *testing.T, path string) {
			must.OK(t, os.Remove(path))
			must.OK(t, os.Mkdir(path, 0o700))
		},
		"is cut": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must.OK(t, err)
			must.OK(t, os.WriteFile(path, data[:len(data)/2], 0o600))
		},
		"has another content": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must.OK(t, err)
			for _, r := range [][2]string{{"2-3,6", "2-3,5"}, {"3221225472", "3221225473"}, {"gpu-7", "gpu-8"}} {
				data = bytes.ReplaceAll(data, []byte(r[0]), []byte(r[1]))
			}
			must.OK(t, os.WriteFile(path, data, 0o600))
		},
	}
	for _, version := range versions {
		for how, spoil := range ways {
			for i, f := range files {
				t.Run(fmt.Sprint(version, " ", f.name, " ", how), func(t *testing.T) {
					dir := root(t, version)
					spoil(t, filepath.Join(dir, f.name))
					s := Read(dir)
					if len(s.GetProblems()) != 1 || !strings.Contains(s.GetProblems()[0], filepath.Join(dir, f.name)) ||
						!strings.Contains(s.GetProblems()[0], f.remedy) {
						t.Errorf("problems: %q", s.GetProblems())
					}
					for j, part := range []string{"1 main 2-3,6", "[0 1]", "gpu-7"} {
						if got := summary(s); strings.Contains(got, part) == (i == j) {
							t.Errorf("got %s", got)
						}
					}
				})
			}
		}
	}
}

// A value costs a hundred times its bytes while it is decoded: a file of too many is refused before.
func TestFileOfTooManyValuesIsNotDecoded(t *testing.T) {
	dir := root(t, "v1.37")
	many := `{"Data":{"PodDeviceEntries":[{}` + strings.Repeat(",{}", maxValues/2) + `]}}`
	must.OK(t, os.WriteFile(filepath.Join(dir, DeviceFile), []byte(many), 0o600))
	s := Read(dir)
	if n := len(s.GetProblems()); n != 1 || !strings.Contains(s.GetProblems()[0], "more than 262144 values") {
		t.Errorf("%q", s.GetProblems())
	}
}

// write replaces the CPU manager's file by one without a sum, as the kubelet accepts it.
func write(t *testing.T, dir, entries string) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(dir, CPUFile), []byte(
		`{"policyName":"static","defaultCpuSet":"0","entries":`+entries+`,"checksum":0}`), 0o600))
}

func TestWhatIsNoListOfCPUsIsLeftOut(t *testing.T) {
	dir := root(t, "v1.37")
	must.OK(t, os.Remove(filepath.Join(dir, MemoryFile)))
	must.OK(t, os.Remove(filepath.Join(dir, DeviceFile)))
	write(t, dir, `{"../pods":{"a":"1"},"`+job+
		`":{"a":"0-4000000000","b":"x","c":"-1","d":"","":"1","f":"1","g":"4,2"}}`)
	s := Read(dir)
	if got := summary(s); got != "2 f 1[]; 2 g 2,4[]" || len(s.GetProblems()) != 4 {
		t.Errorf("got %s, %q", got, s.GetProblems())
	}
}

// What is recorded is bounded, however much the files have: problems, and pods.
func TestRecordIsBounded(t *testing.T) {
	dir := root(t, "v1.37")
	var entries []string
	for i := range 3000 {
		uid := fmt.Sprintf("pod-%04d", i)
		must.OK(t, os.Mkdir(filepath.Join(dir, "pods", uid), 0o700))
		entries = append(entries, fmt.Sprintf("%q:{%q:\"1\",\"bad\":%q}", uid, strings.Repeat("n", 200),
			strings.Repeat("x", 1000)))
	}
	write(t, dir, "{"+strings.Join(entries, ",")+"}")
	s := Read(dir)
	if n := proto.Size(s); n > maxStateBytes+(maxProblems+1)*(maxProblemBytes+16) || len(s.GetPods()) < 500 {
		t.Errorf("%d bytes, %d pods", n, len(s.GetPods()))
	}
	if n := len(s.GetProblems()); n != maxProblems+1 {
		t.Errorf("%d problems: %q", n, s.GetProblems())
	}
}

func TestMemoryThatCannotBeIsRefused(t *testing.T) {
	for name, blocks := range map[string][]memoryBlock{
		"no node":         {{Type: "memory"}},
		"a high node":     {{Type: "memory", NUMAAffinity: []int{64}}},
		"another node":    {{Type: "memory", NUMAAffinity: []int{0}}, {Type: "hugepages-2Mi", NUMAAffinity: []int{1}}},
		"a kind twice":    {{Type: "memory", NUMAAffinity: []int{0}}, {Type: "memory", NUMAAffinity: []int{0}}},
		"no kind":         {{Type: "cpu", NUMAAffinity: []int{0}}},
		"pages of 0":      {{Type: "hugepages-0", NUMAAffinity: []int{0}}},
		"too many bytes":  {{Type: "memory", NUMAAffinity: []int{0}, Size: 1 << 63}},
		"too many blocks": make([]memoryBlock, maxBlocks+1),
	} {
		if _, _, err := memoryOf(blocks); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzRead feeds files with a right sum, or without one, to every reader: what comes out is bounded and can be
// recorded.
func FuzzRead(f *testing.F) {
	for _, version := range versions {
		for i, file := range files {
			data, err := os.ReadFile(filepath.Join("testdata", version, strings.ReplaceAll(file.name, "/", "_")))
			must.OK(f, err)
			f.Add(i, data)
		}
	}
	f.Add(0, []byte(`{"entries":{"`+job+`":{"main":"0-3,7"}}}`))
	f.Add(1, []byte(`{"entries":{"`+job+`":{"main":[{"numaAffinity":[0],"type":"hugepages-1Gi","size":1}]}}}`))
	dir := f.TempDir()
	for _, d := range []string{"device-plugins", "pods/" + web, "pods/" + job} {
		must.OK(f, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		if i < 0 || i >= len(files) {
			return
		}
		path := filepath.Join(dir, files[i].name)
		must.OK(t, os.WriteFile(path, data, 0o600))
		defer func() { must.OK(t, os.Remove(path)) }()
		s := Read(dir)
		if _, err := protojson.Marshal(s); err != nil { // also: valid UTF-8
			t.Fatal(err)
		}
		if len(s.GetPods()) > 2 || proto.Size(s) > 2*maxStateBytes {
			t.Fatalf("%d pods, %d bytes", len(s.GetPods()), proto.Size(s))
		}
		for _, p := range s.GetPods() {
			for _, c := range p.GetExclusive() {
				if c.GetCpus() != "" && exclusive.Parse(c.GetCpus()).String() != c.GetCpus() {
					t.Fatalf("CPUs %q", c.GetCpus())
				}
			}
		}
	})
}
