package volume

import (
	"context"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

// File is a file of a volume, as its set-up writes it.
type File struct {
	Data []byte
	// Mode is that before the volume is given to a fsGroup.
	Mode fs.FileMode
	// User owns it; nil: root.
	User *int64
}

// Files returns the files that a set-up of a configMap, secret, downwardAPI or projected volume would write now, by
// their clean paths, and writes nothing. It returns the same errors as the set-up: they hold no contents.
func (d *Driver) Files(ctx context.Context, pod *corev1.Pod, name string) (map[string]File, error) {
	v := find(pod, name)
	if v == nil {
		return nil, fmt.Errorf("the pod has no volume %q", name)
	}
	files, err := d.contentsOf(ctx, pod, v)
	if err == nil {
		files, err = cleanPayload(files)
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]File, len(files))
	for path, f := range files {
		out[path] = File{Data: f.data, Mode: f.mode, User: f.user}
	}
	return out, nil
}
