package images

import (
	"fmt"
	"net"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const sidecars = "registry.k8s.io/sig-storage/"

// idle does nothing until it is stopped.
const idle = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"

// drivers adds the images of the CSI drivers of upstream's tests, by the names in their manifests: the sidecars are
// upstream's, some of a later release; the driver, its registrar and its probe are ours. What takes snapshots does
// nothing: without the types of snapshots upstream's would start again and again.
func (p Parts) drivers(all map[string]v1.Image, busybox v1.Image) error {
	all[tests+"busybox:1.36.1-1"] = busybox
	host, port, err := net.SplitHostPort(p.API)
	if err != nil {
		return fmt.Errorf("the API server's address: %w", err)
	}
	// Nothing routes the cluster IP of the API server.
	entrypoint := "KUBERNETES_SERVICE_HOST=%s KUBERNETES_SERVICE_PORT=%s exec /%s \"$@\""
	for name, program := range map[string]string{
		"csi-provisioner:v6.3.0":            filepath.Join(p.Sidecars, "csi-provisioner"),
		"csi-attacher:v4.12.0":              filepath.Join(p.Sidecars, "csi-attacher"),
		"csi-resizer:v2.2.0":                filepath.Join(p.Sidecars, "csi-resizer"),
		"csi-node-driver-registrar:v2.17.0": filepath.Join(p.Drivers, "registrar"),
		"hostpathplugin:v1.17.1":            filepath.Join(p.Drivers, "hostpath"),
		"livenessprobe:v2.19.0":             filepath.Join(p.Drivers, "livenessprobe"),
	} {
		at := path.Base(program)
		image, err := layer(busybox, []entry{{name: at, mode: 0o755, from: program}}, func(c *v1.Config) {
			c.Entrypoint, c.Cmd = []string{"/bin/busybox", "sh", "-c", fmt.Sprintf(entrypoint, host, port, at), at}, nil
		})
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		all[sidecars+name] = image
	}
	image, err := layer(busybox, nil, func(c *v1.Config) {
		c.Entrypoint, c.Cmd = []string{"/bin/busybox", "sh", "-c", idle}, nil
	})
	if err != nil {
		return fmt.Errorf("image csi-snapshotter: %w", err)
	}
	all[sidecars+"csi-snapshotter:v8.6.0"] = image
	return nil
}
