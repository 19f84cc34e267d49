//go:build vm

package vm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// exports has the kernel of the machine export /srv/data. Version 4 alone needs no rpcbind.
const exports = `mkdir -p /srv/data/sub && chmod -R 777 /srv/data && echo kept >/srv/data/file
echo '/srv/data *(rw,no_subtree_check,insecure,fsid=1)' >/etc/exports
systemctl start nfs-server 2>&1`

// nfsPod returns a script that writes the manifest of a pod with an export. Its container writes, and keeps on writing,
// through the volume and through a subPath of it.
func nfsPod(name string) string {
	return "cat >/etc/journalet/pods/" + name + ".yaml <<'YAML'\n" + strings.ReplaceAll(`apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 2
  volumes: [{name: files, nfs: {server: 127.0.0.1, path: /srv/data}}]
  containers:
  - name: main
    image: docker.io/library/busybox:1.36
    command: [sh, -c, "cp /data/file /sub/NAME; while :; do echo x >>/data/log-NAME; sleep 1; done"]
    volumeMounts:
    - {name: files, mountPath: /data}
    - {name: files, mountPath: /sub, subPath: sub}
`, "NAME", name) + "YAML"
}

// exported expects so many mounts of exports on the machine itself: containers have theirs in their own namespaces.
func exported(t *testing.T, want int) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%d mounts of NFS", want), func() error {
		out, err := node.Run("grep ' nfs4 ' /proc/self/mounts || true")
		if got := strings.Count(out, " nfs4 "); err == nil && got != want {
			return fmt.Errorf("%d:\n%s", got, out)
		}
		return err
	})
}

// The file's name has it run after node_test.go and before the machine boots again. This is the only test with an NFS
// server: the others mount directories in place of exports.
func TestNFSVolumesOfARealServer(t *testing.T) {
	sh(t, "systemctl is-active -q journalet || bash /mnt/install.sh 2>&1")
	sh(t, "rm -f /etc/journalet/pods/*.yaml")
	sh(t, exports)
	sh(t, nfsPod("one"))
	await(t, corev1.PodRunning, "one")
	exported(t, 2) // with the mount of the subPath
	eventually(t, soon, "a file on the server", func() error {
		out, err := node.Run("cat /srv/data/sub/one")
		if err == nil && strings.TrimSpace(out) != "kept" {
			err = errors.New(out)
		}
		return err
	})
	sh(t, "kill -KILL "+unit(t).pid)
	eventually(t, soon, "health", healthy)
	exported(t, 2)
	sh(t, "rm /etc/journalet/pods/one.yaml")
	exported(t, 0)
	if out := sh(t, "cat /srv/data/file"); out != "kept" {
		t.Errorf("after its pod the export has %q", out)
	}
	if *full {
		serverIsAway(t)
	}
	sh(t, "systemctl stop nfs-server")
}

// serverIsAway takes the server away from a pod that writes to it. That pod ends all the same, a pod that starts waits,
// and a pod without an export does not.
func serverIsAway(t *testing.T) {
	t.Helper()
	sh(t, nfsPod("two"))
	await(t, corev1.PodRunning, "two")
	sh(t, "iptables -I OUTPUT -p tcp --dport 2049 -j DROP && sleep 3 && "+nfsPod("three"))
	sh(t, "cp /mnt/web.yaml /etc/journalet/pods/ && rm /etc/journalet/pods/two.yaml")
	await(t, corev1.PodRunning, "web")
	exported(t, 0)
	sh(t, "iptables -D OUTPUT -p tcp --dport 2049 -j DROP")
	await(t, corev1.PodRunning, "three")
	sh(t, "rm /etc/journalet/pods/*.yaml")
	exported(t, 0)
}
