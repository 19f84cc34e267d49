//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
)

const objectsOfVariables = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LEVEL: debug, greeting: "hello $(LEVEL)"}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {user: admin, password: "p w"}
`

// withVariables gives a pod variables of objects, and of a file that an init container writes.
func withVariables(p *corev1.Pod) {
	c := &p.Spec.Containers[0]
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	yes := true
	c.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("settings")}},
		{Prefix: "DB_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("login")}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("missing"), Optional: &yes}},
	}
	c.Env = []corev1.EnvVar{
		{Name: "WORD", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: named("settings"), Key: "greeting",
		}}},
		{Name: "USER", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: named("login"), Key: "user",
		}}},
		{Name: "WRITTEN", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{
			VolumeName: "shared", Path: "vars.env", Key: "TOKEN",
		}}},
		{Name: "URL", Value: "$(USER)@$(LEVEL)/$(WRITTEN)"},
	}
	p.Spec.Volumes = []corev1.Volume{{
		Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	p.Spec.InitContainers = []corev1.Container{{
		Name: "write", Image: c.Image, ImagePullPolicy: c.ImagePullPolicy,
		Command:      []string{"sh", "-c", "printf \"# written\\nTOKEN='t1'\\n\" >/shared/vars.env"},
		VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}},
	}}
}

func TestContainersGetVariablesOfObjectsAndFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "objects.yaml"), objectsOfVariables)
	a := newAgent(t, "--objects-path", dir)
	a.put(newPod("variables", idle, withVariables))
	a.start()
	p := a.pod("variables", "ready", ready)
	for name, want := range map[string]string{
		"LEVEL": "debug", "greeting": "hello $(LEVEL)", "WORD": "hello $(LEVEL)", "DB_user": "admin",
		"DB_password": "p w", "USER": "admin", "WRITTEN": "t1", "URL": "admin@debug/t1",
	} {
		equal(t, name, inMain(t, p, "echo \"$"+name+"\""), want)
	}
}

func TestContainerWaitsForAKeyOfItsVariables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "objects.yaml")
	writeFile(t, file, "{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {user: admin}}")
	a := newAgent(t, "--objects-path", dir)
	a.put(newPod("waits", idle, func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "login"}, Key: "password",
			},
		}}}
	}))
	a.start()
	a.pod("waits", "without the key", func(p *corev1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			w := s.State.Waiting
			return w != nil && w.Reason == "CreateContainerConfigError" &&
				w.Message == "couldn't find key password in Secret default/login"
		}
		return false
	})
	replace(t, file, "{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {password: late}}")
	p := a.pod("waits", "ready with the key", ready)
	equal(t, "PASSWORD", inMain(t, p, "echo $PASSWORD"), "late")
	// The changed object leads to the start, not the end of the back-off of a failed one.
	read, fired := uint64(0), uint64(0)
	for _, f := range a.journal.all(func(f messages.Flat) bool { return f.Author == "pod/"+string(p.UID) }) {
		switch e := event(t, f); {
		case e.GetObjectsRead() != nil:
			read = f.Seq
		case e.GetTimerFired().GetName() == "start main":
			fired = f.Seq
		}
	}
	if read == 0 || fired > read {
		t.Errorf("the objects were read in record %d, and the back-off was over in record %d", read, fired)
	}
}

// A runtime would give a container other bytes than a Secret has (ADR 081). In a volume they are as they are.
func TestContainerWaitsWhileAVariableIsNoText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "objects.yaml")
	writeFile(t, file, "{apiVersion: v1, kind: Secret, metadata: {name: blob}, data: {bytes: //5B}}")
	secret := corev1.LocalObjectReference{Name: "blob"}
	a := newAgent(t, "--objects-path", dir)
	a.put(newPod("variable", idle, func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Env = []corev1.EnvVar{{Name: "BLOB", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret, Key: "bytes"},
		}}}
		c.Args = []string{"$(BLOB)"}
	}))
	a.put(newPod("file", idle, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "blob", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "blob"},
		}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "blob", MountPath: "/blob", ReadOnly: true},
			{Name: "blob", MountPath: "/one", SubPath: "bytes", ReadOnly: true}}
	}))
	a.start()
	a.pod("variable", "refused", func(p *corev1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			w := s.State.Waiting
			return w != nil && w.Reason == "CreateContainerConfigError" && strings.HasPrefix(w.Message,
				"environment variable BLOB, from key bytes of Secret default/blob, has bytes that are not UTF-8")
		}
		return false
	})
	p := a.pod("file", "ready", ready)
	equal(t, "the file", inMain(t, p, "od -An -tx1 /blob/bytes"), "ff fe 41")
	equal(t, "the file alone", inMain(t, p, "od -An -tx1 /one"), "ff fe 41")
	replace(t, file, "{apiVersion: v1, kind: Secret, metadata: {name: blob}, stringData: {bytes: text}}")
	equal(t, "BLOB", inMain(t, a.pod("variable", "ready with text", ready), "echo $BLOB"), "text")
}
