//go:build attack

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What containers write to their logs, and plant beside them.

// rotating are the flags of an agent that rotates as often as may be.
func rotating(t *testing.T) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	must.OK(t, os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"containerLogMaxSize: 1Ki\ncontainerLogMaxFiles: 3\ncontainerLogMonitorInterval: 3s\n"), 0o600))
	return []string{"--config", config}
}

// A container with the logs of the node replaces its own live log, rotated ones, archives and temporary files by links
// to a file of the node, all the time, while its log is rotated and read.
func TestLogsThatAreLinks(t *testing.T) {
	aim := outside(t)
	secret := filepath.Join(aim, "who")
	attack{
		flags: rotating(t),
		begin: func(g *target) {
			script := `cd /logs/default_attacker-*/main; stamp=$(date -u +%Y%m%d-%H); while :; do
				for f in 0.log.${stamp}0000 0.log.${stamp}0001.gz 0.log.${stamp}0002.tmp; do ln -sf ` + secret + ` $f; done
				for f in 0.log.????????-??????; do [ -f $f ] && ln -sf ` + secret + ` $f.tmp; done
				head -c 2000 /dev/zero | tr '\0' x; echo; sleep 0.1
				mv 0.log kept; ln -s ` + secret + ` 0.log; sleep 0.1; rm 0.log; mv kept 0.log; sleep 1; done`
			g.put(node.Pod("attacker", node.Image, script, func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: g.PodLogs, Type: new(corev1.HostPathType)}}}}
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "logs", MountPath: "/logs"}}
			}))
			g.await("attacker", "ready", node.Ready)
			node.Eventually(t, settle, "logs to be rotated beside the links", func() error {
				out, _, code := g.CLI("logs", "attacker")
				if strings.Contains(out, "node\n") {
					t.Error("the log shows a file of the node")
				}
				records, _, _ := g.CLI("observe", "--event", "log_rotated", "--no-follow")
				if code > 1 || strings.Count(records, "log_rotated") < 2 {
					return fmt.Errorf("logs: %d; rotations: %q", code, records)
				}
				return nil
			})
		},
		check: func(g *target) {
			text, err := os.ReadFile(secret)
			if err != nil || string(text) != "node\n" {
				g.Errorf("the file of the node has %q, %v", text, err)
			}
			g.untouched(aim)
		},
	}.run(t)
}

// A directory of another pod's logs is planted in place of one's own.
func TestLogsOfAnotherPod(t *testing.T) {
	attack{
		begin: func(g *target) {
			g.put(node.Pod("victim", node.Image, "echo secret; "+node.Idle))
			g.put(node.Pod("attacker", node.Image, "echo mine; "+node.Idle))
			g.await("victim", "ready", node.Ready)
			p := g.await("attacker", "ready", node.Ready)
			own := filepath.Join(g.PodLogs, fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID), "main")
			others, err := filepath.Glob(filepath.Join(g.PodLogs, "default_victim-*", "main"))
			must.OK(t, err)
			must.OK(t, os.RemoveAll(own))
			must.OK(t, os.Symlink(others[0], own)) // as a container with the directory can
		},
		check: func(g *target) {
			for _, args := range [][]string{{"logs", "attacker"}, {"logs", "attacker", "--previous"}} {
				if out, _, code := g.CLI(args...); code == 0 || strings.Contains(out, "secret") {
					g.Errorf("%v: %q, %d", args, out, code)
				}
			}
			if out, errs, code := g.CLI("logs", "victim"); code != 0 || out != "secret\n" {
				g.Errorf("the other pod's log: %q, %q, %d", out, errs, code)
			}
		},
	}.run(t)
}

// A line of 256 MiB, with characters at its end that a terminal acts on.
func TestLogsOfHugeAndStrangeLines(t *testing.T) {
	const huge = 256 << 20
	attack{
		begin: func(g *target) {
			g.put(node.Pod("attacker", node.Image, fmt.Sprintf("head -c %d /dev/zero; printf '\\033[2J\\033]0;x\\007\\n'; "+
				"echo end; "+node.Idle, huge)))
			g.await("attacker", "ready", node.Ready)
			node.Eventually(t, settle, "the last line", func() error {
				out, errs, code := g.CLI("logs", "attacker", "--tail", "1")
				if out != "end\n" || code != 0 {
					return fmt.Errorf("%.100q, %s, %d", out, errs, code)
				}
				return nil
			})
		},
		check: func(g *target) {
			out, _, code := g.CLI("logs", "attacker", "--tail", "2", "--limit-bytes", "1000")
			if code != 0 || out != strings.Repeat("\x00", 1000) {
				g.Errorf("%.100q, %d", out, code)
			}
		},
	}.run(t)
}
