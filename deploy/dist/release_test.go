package main

import (
	"archive/tar"
	"debug/buildinfo"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/spdx/tools-golang/json"
)

// write writes all that needs no real program.
func write(t *testing.T) release {
	t.Helper()
	r, texts := standIn(t)
	for _, arch := range architectures {
		ok(t, r.writePackages(arch, texts))
	}
	ok(t, r.writeImage())
	ok(t, writeSums(r.out))
	return r
}

func TestSameInputsAreTheSameBytes(t *testing.T) {
	a, b := write(t), write(t)
	first, err := os.ReadFile(filepath.Join(a.out, sumsFile))
	ok(t, err)
	second, err := os.ReadFile(filepath.Join(b.out, sumsFile))
	ok(t, err)
	if string(first) != string(second) {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
	if n := strings.Count(string(first), "\n"); n != 7 {
		t.Errorf("%d files, want 7:\n%s", n, first)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "-c", "--strict", "--quiet", sumsFile)
	check.Dir = a.out
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum -c: %v\n%s", err, out)
	}
}

func TestBinaryIsTheSameFromTwoDirectories(t *testing.T) {
	var sums []string
	for _, name := range []string{"one", "another/below"} {
		dir := filepath.Join(t.TempDir(), name)
		ok(t, put(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26.0\n")))
		program := "package main\n\nfunc main() { panic(text) }\n\nvar text string\n"
		ok(t, put(filepath.Join(dir, "cmd", "main.go"), []byte(program)))
		out := filepath.Join(dir, "m")
		ok(t, build(t.Context(), dir, "./cmd", out, "arm64", "-X main.text=v1"))
		sum, err := digest(out)
		ok(t, err)
		sums = append(sums, string(sum))
	}
	if sums[0] != sums[1] {
		t.Error("the binaries differ")
	}
}

func TestListHasSizeAndChecksumOfEachFile(t *testing.T) {
	dir := t.TempDir()
	ok(t, put(filepath.Join(dir, "a"), make([]byte, 3<<19)))
	ok(t, put(filepath.Join(dir, "longer"), []byte("x")))
	ok(t, writeSums(dir))
	var out strings.Builder
	ok(t, printSums(dir, &out))
	want := "a        1.5 MiB  106f0647ae10a6516b1ab2968038161e287ef40d1b22ca047531ed768e594ef1\n" +
		"longer   0.0 MiB  2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

func TestSizeBeyondItsBoundIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journalet-linux-amd64")
	ok(t, put(path, nil))
	ok(t, os.Truncate(path, maxBinary))
	ok(t, bounded(path, maxBinary))
	ok(t, os.Truncate(path, maxBinary+1))
	if err := bounded(path, maxBinary); err == nil || !strings.Contains(err.Error(), "journalet-linux-amd64 has 90 MiB") {
		t.Errorf("one byte beyond the bound: %v", err)
	}
}

func TestUnitsStartProgramsOfThePackage(t *testing.T) {
	_, texts := standIn(t)
	files, err := contents(debian, "../..", "binary", texts)
	ok(t, err)
	found := 0
	for _, f := range files {
		if !strings.HasSuffix(f.path, ".service") {
			continue
		}
		if strings.Contains(string(f.data), "/usr/local/") || !strings.HasPrefix(string(f.data), "[Unit]\n") {
			t.Errorf("%s is not changed for a package:\n%s", f.path, f.data)
		}
		if strings.Contains(string(f.data), "\nExecStart=/usr/bin/journalet run $JOURNALET_ARGS\n") {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d units start the program with the flags of its file, want 1", found)
	}
}

func TestImageHasTheBinaryOfEachArchitecture(t *testing.T) {
	r, _ := standIn(t)
	ok(t, r.writeImage())
	f, err := os.Open(filepath.Join(r.out, "journalet-0.2.0+12.gabc1234.oci.tar"))
	ok(t, err)
	defer f.Close()
	dir := t.TempDir()
	extract(t, f, dir)
	index, err := layout.ImageIndexFromPath(dir)
	ok(t, err)
	ok(t, validate.Index(index))
	top, err := index.IndexManifest()
	ok(t, err)
	if name := top.Manifests[0].Annotations["io.containerd.image.name"]; name != "localhost/journalet:0.2.0-12.gabc1234" {
		t.Errorf("the image is named %q", name)
	}
	index, err = index.ImageIndex(top.Manifests[0].Digest)
	ok(t, err)
	platforms, err := index.IndexManifest()
	ok(t, err)
	var found []string
	for _, m := range platforms.Manifests {
		image, err := index.Image(m.Digest)
		ok(t, err)
		config, err := image.ConfigFile()
		ok(t, err)
		if config.Architecture != m.Platform.Architecture || config.Config.Entrypoint[0] != "/usr/bin/journalet" ||
			!config.Created.Equal(someDate) {
			t.Errorf("the image for %s has the configuration %+v", m.Platform, config)
		}
		found = append(found, m.Platform.String())
		layers, err := image.Layers()
		ok(t, err)
		content, err := layers[0].Uncompressed()
		ok(t, err)
		root := t.TempDir()
		extract(t, content, root)
		got, err := digest(filepath.Join(root, "usr/bin/journalet"))
		ok(t, err)
		if want, err := digest(r.binary(config.Architecture)); err != nil || string(got) != string(want) {
			t.Errorf("the image for %s has another binary: %v", m.Platform, err)
		}
	}
	if !slices.Equal(found, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the image is for %v", found)
	}
}

// extract writes what a tar archive of this program has.
func extract(t *testing.T, in io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		ok(t, err)
		if !h.ModTime.Equal(someDate) {
			t.Errorf("%s is of %s, want the date of the commit", h.Name, h.ModTime)
		}
		if h.FileInfo().IsDir() {
			continue
		}
		data, err := io.ReadAll(r)
		ok(t, err)
		ok(t, put(filepath.Join(dir, filepath.FromSlash(h.Name)), data))
	}
}

func TestSBOMNamesEachModuleWithItsLicence(t *testing.T) {
	r, _ := standIn(t)
	test, err := os.Executable()
	ok(t, err)
	info, err := buildinfo.ReadFile(test)
	ok(t, err)
	licences := map[string]string{}
	for _, m := range info.Deps {
		licences[m.Path+" "+m.Version] = "MIT"
	}
	ok(t, os.Remove(r.binary("amd64")))
	ok(t, os.Symlink(test, r.binary("amd64")))
	ok(t, r.writeSBOM("amd64", licences))
	f, err := os.Open(r.binary("amd64") + ".spdx.json")
	ok(t, err)
	defer f.Close()
	doc, err := json.Read(f)
	ok(t, err)
	var got []string
	for _, p := range doc.Packages[2:] { // journalet itself, and Go's library
		got = append(got, p.PackageName+" "+p.PackageVersion)
		if p.PackageLicenseConcluded != "MIT" {
			t.Errorf("%s has the licence %s", p.PackageName, p.PackageLicenseConcluded)
		}
	}
	want := slices.Sorted(maps.Keys(licences))
	if slices.Sort(got); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("modules %q, want %q", got, want)
	}
	delete(licences, want[0])
	if err := r.writeSBOM("amd64", licences); err == nil || !strings.Contains(err.Error(), "make licences") {
		t.Errorf("a module without a licence: %v", err)
	}
}

func TestLicencesAreReadFromTheListOfTheRepository(t *testing.T) {
	list := "Intro.\n\nBuilt into journalet:\n\n" +
		"example.com/a v1.0.0 MIT\nexample.com/b/v2 v2.0.0 BSD-3-Clause, MPL-2.0\n\n" +
		"Built into tests, tools and the lab only:\n\nexample.com/c v1.0.0 ISC\n"
	want := map[string]string{"example.com/a v1.0.0": "MIT", "example.com/b/v2 v2.0.0": "BSD-3-Clause AND MPL-2.0"}
	if got := licencesOf(list); !maps.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

func TestOnlyFilesOfBuildsAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	for range 2 {
		ok(t, prepare(dir))
		for _, name := range []string{sumsFile, "journalet_1.0_amd64.deb"} {
			ok(t, put(filepath.Join(dir, name), []byte("x")))
		}
	}
	for _, name := range []string{"letter.txt", "journalet-photos/1.jpg"} {
		ok(t, put(filepath.Join(dir, name), []byte("x")))
		top, _, _ := strings.Cut(name, "/")
		if err := prepare(dir); err == nil || !strings.Contains(err.Error(), top) {
			t.Errorf("with %s: %v", name, err)
		}
		ok(t, os.RemoveAll(filepath.Join(dir, top)))
	}
	ok(t, prepare(dir))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
