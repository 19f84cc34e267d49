//go:build attack

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What a directory of objects holds, and what changes in it.

func TestObjectsOfAHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	configMap := func(name, data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {" + data + "}\n"
	}
	write := func(name string, parts ...string) {
		must.OK(t, os.WriteFile(at(name), []byte(strings.Join(parts, "")), 0o600))
	}
	attack{
		flags: []string{"--objects-path", dir, "--service-account-token-file", "default/robot=" + at("fifo.yaml")},
		begin: func(g *target) {
			must.OK(t, errors.Join(
				unix.Mkfifo(at("fifo.yaml"), 0o644), os.Symlink("/dev/zero", at("zero.yaml")),
				os.Symlink("loop.yaml", at("loop.yaml")), os.Symlink("/proc/kmsg", at("kmsg.yaml")),
				os.WriteFile(at("sparse.yaml"), nil, 0o600), os.Truncate(at("sparse.yaml"), 1<<40),
			))
			write("nested.json", nested()...)
			write("aliases.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: &a \"",
				strings.Repeat("x", 64<<10), `"`, strings.Repeat(", a: *a", 300_000), "}\n")
			write("keys.yaml", configMap("keys", strings.Repeat("k: v, ", 1_000_000)))
			for i := range 100 {
				write(fmt.Sprintf("big-%d.yaml", i), configMap(fmt.Sprint("big-", i), "k: "+strings.Repeat("x", 1_000_000)))
			}
			write("config.yaml", configMap("config", "GREETING: hello"))
			g.put(node.Pod("referrer", node.Image, node.Idle, func(p *corev1.Pod) {
				p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}
			}))
		},
		restart: true,
		check: func(g *target) {
			g.await("referrer", "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
			for i := range 2000 { // as fast as it goes
				write("config.yaml", configMap("config", fmt.Sprint("GREETING: hello", i)))
			}
			g.bystander()
		},
	}.run(t)
}
