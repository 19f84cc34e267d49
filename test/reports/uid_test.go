//go:build reports

package reports

import (
	"context"
	"errors"
	"fmt"
	"testing"

	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// object writes the ConfigMap or Secret "word". One that exists is deleted before.
func (p *place) object(kind, word string, immutable bool) {
	p.Helper()
	field := map[string]string{"ConfigMap": "data", "Secret": "stringData"}[kind]
	p.kubectl("", "delete", "--ignore-not-found", kind, "word")
	p.apply(fmt.Sprintf("{apiVersion: v1, kind: %s, metadata: {name: word}, immutable: %t, %s: {word: %s}}", kind,
		immutable, field, word))
}

// reader is a pod that has "word" in a volume and in a variable.
func reader(name, kind string) *core.Pod {
	return pod(name, node.Idle, func(p *core.Pod) {
		source, from := core.VolumeSource{}, &core.EnvVarSource{}
		word := core.LocalObjectReference{Name: "word"}
		if kind == "Secret" {
			source.Secret = &core.SecretVolumeSource{SecretName: "word"}
			from.SecretKeyRef = &core.SecretKeySelector{LocalObjectReference: word, Key: "word"}
		} else {
			source.ConfigMap = &core.ConfigMapVolumeSource{LocalObjectReference: word}
			from.ConfigMapKeyRef = &core.ConfigMapKeySelector{LocalObjectReference: word, Key: "word"}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: "word", VolumeSource: source})
		c := &p.Spec.Containers[0]
		c.Env = append(c.Env, core.EnvVar{Name: "WORD", ValueFrom: from})
		c.VolumeMounts = append(c.VolumeMounts, core.VolumeMount{Name: "word", MountPath: "/word"})
	})
}

// reads wants a pod to have a word in its volume and its variable.
func (p *place) reads(name, want string) {
	p.Helper()
	if got := p.exec(name, "sh", "-c", "echo $(cat /word/word) $WORD"); got != want+" "+want+"\n" {
		p.Errorf("pod %s reads %q in its volume and its variable, want %q", name, got, want)
	}
}

// A pod that is created after an immutable object was deleted and created again gets the new one, also while an older
// pod on the node has the first one and keeps it (kubernetes/kubernetes#119733, #105658, #131589).
func TestImmutableObjectIsCreatedAgain(t *testing.T) {
	for _, kind := range []string{"ConfigMap", "Secret"} {
		t.Run(kind, func(t *testing.T) {
			ofAPI(t, func(p *place) {
				p.object(kind, "first", true)
				p.pod(reader("old", kind))
				p.ready("old")
				p.object(kind, "second", true)
				p.pod(reader("new", kind)) // at once: the node may not have heard of the object yet
				p.ready("new")
				p.reads("old", "first")
				p.reads("new", "second")
				p.object(kind, "third", false)
				p.pod(reader("third", kind))
				p.ready("third")
				p.restart("old")
				for name, want := range map[string]string{"old": "first", "new": "second", "third": "third"} {
					p.reads(name, want)
				}
			})
		})
	}
}

// A pod that waits for the object gets the next object of this name.
func TestImmutableObjectIsCreatedAgainAfterItsPod(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.object("ConfigMap", "first", true)
		p.pod(reader("old", "ConfigMap"))
		p.ready("old")
		p.kubectl("", "delete", "configmap", "word")
		p.pod(reader("new", "ConfigMap"))
		p.await("new", "bound", func(pod *core.Pod) bool { return pod.Status.StartTime != nil })
		p.object("ConfigMap", "second", true)
		p.ready("new")
		p.reads("old", "first")
		p.reads("new", "second")
	})
}

// The same over a restart of the agent, while which the object is deleted and created again.
func TestImmutableObjectIsCreatedAgainWhileTheAgentIsDown(t *testing.T) {
	ofAPI(t, func(p *place) {
		p.object("ConfigMap", "first", true)
		p.pod(reader("old", "ConfigMap"))
		p.ready("old")
		p.down(p.T, func() { p.object("ConfigMap", "second", true) })
		p.pod(reader("new", "ConfigMap"))
		p.ready("new")
		p.reads("new", "second")
		p.reads("old", "first")
		p.restart("old")
		p.reads("old", "first")
	})
}

// restart has the container of a pod end, and waits for the next one.
func (p *place) restart(name string) {
	p.Helper()
	id := node.Container(p.ready(name), "main").ContainerID
	ctx, cancel := context.WithTimeout(context.Background(), node.Attempt)
	defer cancel()
	_, err := p.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: node.BareID(id), Timeout: 2})
	must.OK(p.T, err)
	p.until("the container of pod "+name+" to be another one", func() error {
		if pod := p.get(name); !node.Ready(pod) || node.Container(pod, "main").ContainerID == id {
			return errors.New("it is not")
		}
		return nil
	})
}
