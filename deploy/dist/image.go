package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageName is what `ctr images import` calls the image.
const imageName = "localhost/journalet:"

// writeImage writes a tar archive with an OCI image layout: nothing but the binary, of each architecture. It is there
// to be copied from, and to run the agent in a privileged container, as the nodes of kind are.
func (r release) writeImage() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := r.image(arch)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	dir, err := os.MkdirTemp("", "journalet-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	tag := strings.NewReplacer("~", "-", "+", "-").Replace(r.number)
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": imageName + tag,
	})); err != nil {
		return err
	}
	return archive(dir, filepath.Join(r.out, "journalet-"+r.number+".oci.tar"), r.date)
}

// image returns the image of an architecture.
func (r release) image(arch string) (v1.Image, error) {
	binary, err := os.ReadFile(r.binary(arch))
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range []file{
		{path: "usr/", mode: fs.ModeDir | 0o755}, {path: "usr/bin/", mode: fs.ModeDir | 0o755},
		{path: "usr/bin/journalet", mode: 0o755, data: binary},
	} {
		if err := add(w, f, r.date); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, l)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.config(arch, image))
}

func (r release) config(arch string, image v1.Image) *v1.ConfigFile {
	config := must(image.ConfigFile()).DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: r.date}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/journalet"}, Cmd: []string{"run"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "journalet", "org.opencontainers.image.version": r.version,
		},
	}
	return config
}

// archive writes the files of a directory into a tar archive, in order of their names.
func archive(dir, out string, date time.Time) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		if d.IsDir() {
			return add(w, file{path: name + "/", mode: fs.ModeDir | 0o755}, date)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return add(w, file{path: name, mode: 0o644, data: data}, date)
	})
	for _, close := range []func() error{w.Close, f.Close} {
		if e := close(); err == nil {
			err = e
		}
	}
	return err
}

// add writes one file of root's.
func add(w *tar.Writer, f file, date time.Time) error {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: date,
		Format: tar.FormatPAX,
	}
	if f.mode.IsDir() {
		h.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.data)
	return err
}
