//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/strict"
)

// mountsBelow returns the lines of the mount table of a directory.
func mountsBelow(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(readFile(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, " "+dir+"/") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// unmounts removes pods, and waits until none of their mounts is left.
func (a *agent) unmounts(pods ...string) {
	a.T.Helper()
	for _, name := range pods {
		a.Remove(name + ".yaml")
	}
	a.gone()
	eventually(a.T, settle, "no mount to be left", func() error {
		if left := mountsBelow(a.T, a.Root); left != "" {
			return fmt.Errorf("left are\n%s", left)
		}
		return nil
	})
}

func TestRestartOfTheAgentMountsNothingAgain(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	const pods, each = 3, 100
	var names []string
	for i := range pods {
		names = append(names, fmt.Sprintf("mounts%d", i))
		a.put(newPod(names[i], idle, func(p *corev1.Pod) {
			for j := range each {
				name := fmt.Sprintf("v%d", j)
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
				}})
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
					corev1.VolumeMount{Name: name, MountPath: "/v/" + name})
			}
		}))
	}
	a.start()
	a.pods("ready", allReady(pods))
	before := mountsBelow(t, a.Root)
	if n := strings.Count(before, "\n"); n != pods*each {
		t.Fatalf("%d mounts:\n%s", n, before)
	}
	prints := a.fingerprint()
	a.crash()
	a.pods("ready", allReady(pods))
	a.kept(prints, "the restart of the agent")
	if after := mountsBelow(t, a.Root); after != before {
		t.Errorf("the mount table is\n%s\nbefore\n%s", after, before)
	}
	a.unmounts(names...)
	a.Verified()
}

const objectsOfFiles = `
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {greeting: %s, fixed: same}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: K}
`

// replace replaces a file by rename, as an editor does.
func replace(t *testing.T, path, text string) {
	t.Helper()
	writeFile(t, path+".new", text)
	must.OK(t, os.Rename(path+".new", path))
}

func TestFilesInContainersFollowTheirObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "objects.yaml")
	writeFile(t, file, fmt.Sprintf(objectsOfFiles, "hello"))
	// Without a notification the agent would see no change before the end of the test.
	config := filepath.Join(t.TempDir(), "config.yaml")
	writeFile(t, config, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfileCheckFrequency: 1h\n")
	a := newAgent(t, "--objects-path", dir, "--config", config)
	user, group := int64(1234), int64(2345)
	a.put(newPod("files", idle, withFiles, func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "files"}
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group}
	}))
	a.start()
	p := a.pod("files", "ready", ready)
	sh := func(script string) string {
		return setup.Runtime.Exec(t, container(p, "main").ContainerID, "sh", "-c", script)
	}
	for path, want := range map[string]string{
		"conf/greeting": "hello", "conf/fixed": "same", "keys/key": "K", "all/conf/word": "hello", "all/key": "K",
		"all/app": "files", "down/name": p.Name, "down/memory": "64",
	} {
		equal(t, path, sh("cat /v/"+path), want)
	}
	for path, want := range map[string]string{
		"keys/key": "440 0 2345", "conf/greeting": "644 0 2345", "disk": "2777 0 2345", "memory": "3777 0 2345",
	} {
		equal(t, "mode and owner of "+path, sh("stat -L -c '%a %u %g' /v/"+path), want)
	}
	for name, want := range map[string]string{"keys": "tmpfs", "down": "tmpfs", "all": "tmpfs", "memory": "tmpfs"} {
		equal(t, "the file system of "+name, sh("grep ' /v/"+name+" ' /proc/mounts | cut -d' ' -f1"), want)
	}
	equal(t, "writes to volumes of the group", sh("touch /v/disk/a /v/memory/a && echo written"), "written")
	for _, name := range []string{"conf", "keys", "all", "down"} {
		equal(t, "a write to "+name, sh("touch /v/"+name+"/a 2>/dev/null && echo written || echo refused"), "refused")
	}

	prints := a.fingerprint()
	onNode := filepath.Join(a.Root, "pods", string(p.UID), "volumes/kubernetes.io~configmap/conf/greeting")
	for i := range 3 {
		word := fmt.Sprintf("changed%d", i)
		replace(t, file, fmt.Sprintf(objectsOfFiles, word))
		changed := time.Now()
		eventually(t, settle, "the changed file", func() error {
			if got := readFile(t, onNode); got != word {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		strict.Within(t, "a change, until it has reached the pod,", time.Since(changed), time.Second)
		equal(t, "the file in the container", sh("cat /v/conf/greeting"), word)
		eventually(t, settle, "the changed file of the projection", func() error {
			if got := sh("cat /v/all/conf/word"); got != word {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	a.kept(prints, "the changes of its objects")
	a.unmounts("files")
	a.Verified()
}

// A copy that lies beside a file of objects while the agent starts does not replace what pods have, and what is edited
// in the file afterwards is with its pods.
func TestCopyBesideAFileOfObjectsReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backup := filepath.Join(dir, "objects.yaml"), filepath.Join(dir, "backup.yaml")
	writeFile(t, file, fmt.Sprintf(objectsOfFiles, "hello"))
	a := newAgent(t, "--objects-path", dir)
	a.put(newPod("files", idle, withFiles))
	a.start()
	p := a.pod("files", "ready", ready)
	prints := a.fingerprint()
	a.Stop()
	writeFile(t, backup, fmt.Sprintf(objectsOfFiles, "copied"))
	a.start()
	a.pod("files", "ready", ready)
	onNode := filepath.Join(a.Root, "pods", string(p.UID), "volumes/kubernetes.io~configmap/conf/greeting")
	replace(t, file, fmt.Sprintf(objectsOfFiles, "edited"))
	eventually(t, settle, "the edited file", func() error {
		if got := readFile(t, onNode); got != "edited" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	a.kept(prints, "the edit beside a copy")
	a.unmounts("files")
	a.Verified()
}

// withFiles gives a pod a volume of each kind that has files, and two of emptyDir, at /v.
func withFiles(p *corev1.Pod) {
	private := int32(0o400)
	conf := corev1.LocalObjectReference{Name: "conf"}
	labels := &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}
	memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	for name, source := range map[string]corev1.VolumeSource{
		"conf":   {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: conf}},
		"keys":   {Secret: &corev1.SecretVolumeSource{SecretName: "keys", DefaultMode: &private}},
		"disk":   {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"memory": {EmptyDir: memory},
		"down": {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			{Path: "memory", ResourceFieldRef: &corev1.ResourceFieldSelector{
				ContainerName: "main", Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}},
		}}},
		"all": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: conf,
				Items: []corev1.KeyToPath{{Key: "greeting", Path: "conf/word"}}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "app", FieldRef: labels}}}},
		}}},
	} {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: "/v/" + name})
	}
}

func TestLostVolumesAndDirectoriesAreFoundAtTheStart(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	a.put(newPod("loses", idle, func(p *corev1.Pod) {
		memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
		p.Spec.Volumes = []corev1.Volume{{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: memory}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "memory", MountPath: "/v"}}
	}))
	a.start()
	p := a.pod("loses", "ready", ready)
	prints := a.fingerprint()
	a.Kill()
	at := filepath.Join(a.Root, "pods", string(p.UID), "volumes/kubernetes.io~empty-dir/memory")
	must.OK(t, unix.Unmount(at, unix.MNT_DETACH))
	const unknown = "11111111-2222-3333-4444-555555555555"
	must.OK(t, os.MkdirAll(filepath.Join(a.Root, "pods", unknown, "volumes/kubernetes.io~empty-dir/left"), 0o750))
	last := a.journal.last()
	a.start()
	a.journal.wait(t, last, settle, "the lost volume", named("volumes_lost", string(p.UID), "memory"))
	a.journal.wait(t, last, settle, "the unknown directory", named("pod_directory_found", unknown))
	eventually(t, settle, "the volume to be mounted again", func() error {
		if table := mountsBelow(t, a.Root); !strings.Contains(table, at) {
			return fmt.Errorf("the mounts are\n%s", table)
		}
		return nil
	})
	a.kept(prints, "the loss of a mount")
	a.unmounts("loses")
	a.Verified()
}
