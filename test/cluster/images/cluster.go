package images

import (
	"fmt"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/journalet/journalet/test/cluster"
)

// cluster adds the images of what runs in a cluster beside the tests: kube-proxy, CoreDNS, and a server of a further
// API with its etcd. They are their programs, on the image that has nothing but a static program.
func (p Parts) cluster(all map[string]v1.Image, pause v1.Image) error {
	program := func(name cluster.Program) string { return filepath.Join(p.Programs, string(name)) }
	for name, recipe := range map[string]struct {
		entries []entry
		start   []string
	}{
		// All else is the machine's, which the pod mounts at /usr.
		"kube-proxy:" + cluster.Version: {[]entry{
			{name: "kube-proxy", mode: 0o755, from: program(cluster.KubeProxy)}, {name: "etc/", mode: 0o755},
			{name: "bin", link: "usr/bin"}, {name: "sbin", link: "usr/sbin"}, {name: "lib", link: "usr/lib"},
			{name: "lib64", link: "usr/lib64"}, {name: "tmp/", mode: 0o1777},
		}, []string{"/kube-proxy"}},
		"coredns/coredns:" + cluster.CoreDNSVersion: {[]entry{
			{name: "coredns", mode: 0o755, from: filepath.Join(p.DNS, string(cluster.CoreDNS))},
		}, []string{"/coredns"}},
		"etcd:3.7.0-0": {[]entry{
			{name: "usr/local/bin/etcd", mode: 0o755, from: program(cluster.StaticEtcd)},
		}, []string{"/usr/local/bin/etcd"}},
		"e2e-test-images/sample-apiserver:1.29.2": {[]entry{
			{name: "sample-apiserver", mode: 0o755, from: program(cluster.SampleAPIServer)}, {name: "tmp/", mode: 0o1777},
		}, []string{"/sample-apiserver"}},
	} {
		image, err := layer(pause, recipe.entries, func(c *v1.Config) {
			c.Entrypoint, c.User = recipe.start, "" // the lab's pause is not root
		})
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		all["registry.k8s.io/"+name] = image
	}
	return nil
}
