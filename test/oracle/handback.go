package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/journalet/journalet/actors/exclusive"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/test/oracle/kubelet"
)

// given has the exclusive resources of a pod of ours.
type given struct {
	pod     *corev1.Pod
	alone   exclusive.Pod
	devices []*journaletv1.ContainerDevices
}

// answer is the variable that the plugin of our pods sets, with the ids of the devices.
const answer = "THINGS"

// compareHandback writes what our pods have into state files, starts the kubelet's managers with them, and compares
// what the pods have then.
func compareHandback(c *testCase, settings *journaletv1.ResourceManagers, options kubelet.ManagerOptions,
	plugin *journaletv1.DeviceResource, pods []given) {
	dir, err := os.MkdirTemp("", "handback")
	check("create a directory", err)
	defer os.RemoveAll(dir)
	g := kubeletstate.Given{
		Managers: settings, Pods: map[string]*journaletv1.KubeletPod{}, Allocated: map[string]kubeletstate.PodResources{},
		Claims: map[string][]*journaletv1.PodClaim{},
	}
	if plugin != nil {
		g.Devices = map[string]*journaletv1.DeviceResource{kubelet.Thing: plugin}
	}
	for i, p := range pods {
		g.Claims[string(p.pod.UID)] = claimsOf(i)
		options.Active = append(options.Active, p.pod)
		one := &journaletv1.KubeletPod{Exclusive: p.alone}
		for _, d := range p.devices {
			one.Devices = append(one.Devices, &journaletv1.ContainerDevices{
				Container: d.GetContainer(), Resource: d.GetResource(), Ids: d.GetIds(),
				Answer: &journaletv1.DeviceAnswer{Envs: []*journaletv1.NamedValue{
					{Name: answer, Value: strings.Join(d.GetIds(), " ")},
				}},
			})
		}
		g.Pods[string(p.pod.UID)], g.Allocated[string(p.pod.UID)] = one, kubeletstate.ResourcesOf(p.pod)
	}
	g.Actuated = g.Allocated
	lacking, err := kubeletstate.Write(dir, g)
	if err != nil {
		c.count("no state files: " + err.Error())
		return
	}
	if len(lacking) > 0 {
		c.differs("what the state files lack", fmt.Sprint(lacking), "nothing")
	}
	if !compareAllocated(c, dir, options.Active) || !compareClaims(c, dir, pods) {
		return
	}
	options.Dir = dir
	theirs, err := kubelet.NewManagers(options)
	if theirs != nil {
		defer func() { check("close", theirs.Close()) }()
	}
	if err != nil {
		files, _ := os.ReadFile(filepath.Join(dir, kubeletstate.MemoryFile))
		c.differs("whether a kubelet starts after a hand-back", "it does", err.Error()+"\n"+string(files))
		return
	}
	c.count("handed back")
	for _, p := range pods {
		if mine, there := alone(p.pod, p.alone, p.devices), theirs.Has(p.pod); mine != there {
			c.differs("what containers have after a hand-back", mine, there)
			return
		}
		for _, d := range p.devices {
			env, err := theirs.Env(p.pod, &corev1.Container{Name: d.GetContainer()})
			if want := strings.Join(d.GetIds(), " "); err != nil || env[answer] != want {
				c.differs("what a plugin has answered, after a hand-back", want, fmt.Sprint(env[answer], err))
				return
			}
		}
	}
}

// compareAllocated compares what state files have of the resources of pods with what the kubelet would have written,
// and what is read of either. It returns whether they agree.
func compareAllocated(c *testCase, dir string, pods []*corev1.Pod) bool {
	for _, file := range []string{kubeletstate.AllocatedFile, kubeletstate.ActuatedFile} {
		has, notes, err := kubelet.NotedResources(dir, file, pods)
		if err != nil {
			has = err.Error()
		}
		if has != notes {
			c.differs("the resources of pods in "+file, has, notes)
			return false
		}
	}
	theirs, err := os.MkdirTemp("", "allocated")
	check("create a directory", err)
	defer os.RemoveAll(theirs)
	check("note resources", kubelet.NoteResources(theirs, kubeletstate.AllocatedFile, pods))
	ours, err := kubeletstate.ReadAllocated(dir)
	check("read our file", err)
	read, err := kubeletstate.ReadAllocated(theirs)
	if err != nil || !equality.Semantic.DeepEqual(read, ours) {
		c.differs("what is read of the kubelet's "+kubeletstate.AllocatedFile, fmt.Sprint(read, err), fmt.Sprint(ours))
		return false
	}
	return true
}
