package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is one file of a layer, owned by root: a copy of the file from, a symbolic link, or text. A name that ends in a
// slash is a directory.
type entry struct {
	name string
	mode int64
	from string
	link string
	text string
}

// layer returns an image with entries above base, under a configuration that change has adjusted.
func layer(base v1.Image, entries []entry, change func(*v1.Config)) (v1.Image, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if err := e.write(w); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	above, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buf.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(base, above)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := *file.Config.DeepCopy()
	change(&config)
	return mutate.Config(image, config)
}

func (e entry) write(w *tar.Writer) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
	data := []byte(e.text)
	switch {
	case e.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	case strings.HasSuffix(e.name, "/"):
		h.Typeflag = tar.TypeDir
	case e.from != "":
		var err error
		if data, err = os.ReadFile(e.from); err != nil {
			return err
		}
	}
	h.Size = int64(len(data))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
