package cgroup

import (
	"fmt"
	"path"
	"strings"

	"github.com/opencontainers/cgroups/systemd"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
)

// Names of the tree, as the kubelet's.
const (
	topName     = "kubepods"
	podPrefix   = "pod"
	sliceSuffix = ".slice"
)

// The drivers, as CRI and the kubelet call them.
const (
	Cgroupfs = "cgroupfs"
	Systemd  = "systemd"
)

// Layout maps pods to the paths of their cgroups.
type Layout struct {
	// Root is the cgroup above kubepods, as a cgroupfs path; "" and "/" are the topmost one.
	Root string
	// Systemd names cgroups as slices.
	Systemd bool
}

// name is a cgroup's path from the topmost cgroup, independent of the driver.
type name []string

func (n name) child(parts ...string) name { return append(append(name{}, n...), parts...) }

func (l Layout) root() name {
	root := strings.Trim(path.Clean("/"+l.Root), "/")
	if root == "" {
		return nil
	}
	return strings.Split(root, "/")
}

func (l Layout) top() name { return l.root().child(topName) }

// class returns the cgroup of a QoS class; Guaranteed has the tree's own.
func (l Layout) class(qos corev1.PodQOSClass) name {
	if qos == corev1.PodQOSGuaranteed {
		return l.top()
	}
	return l.top().child(strings.ToLower(string(qos)))
}

// classes are all QoS classes, the one with most pods first.
var classes = []corev1.PodQOSClass{corev1.PodQOSBurstable, corev1.PodQOSBestEffort, corev1.PodQOSGuaranteed}

func (l Layout) pod(uid string, qos corev1.PodQOSClass) name {
	return l.class(qos).child(podPrefix + uid)
}

// Pod returns a pod's cgroup as CRI's cgroup parent. It fails if the UID cannot be part of a cgroup's name.
func (l Layout) Pod(p *corev1.Pod) (string, error) {
	if err := l.check(string(p.UID)); err != nil {
		return "", err
	}
	return l.path(l.pod(string(p.UID), pod.QOS(p)))
}

// check refuses a UID that would lead to another path, or to another pod's cgroup: systemd encodes - as _.
func (l Layout) check(uid string) error {
	switch {
	case uid == "", uid == ".", uid == "..", strings.ContainsAny(uid, "/\x00"):
		return fmt.Errorf("pod UID %q cannot be part of a cgroup's name", uid)
	case l.Systemd && strings.Contains(uid, "_"):
		return fmt.Errorf("pod UID %q cannot be part of a slice's name; "+
			"remove the _ from metadata.uid, or run with --cgroups-per-qos=false", uid)
	}
	return nil
}

// path returns a cgroup's path below the mount point of a hierarchy.
func (l Layout) path(n name) (string, error) {
	if !l.Systemd {
		return "/" + path.Join(n...), nil
	}
	if len(n) == 0 {
		return "/", nil
	}
	full, err := systemd.ExpandSlice(sliceName(n))
	if err != nil {
		return "", fmt.Errorf("the cgroup %s cannot be a slice: %w", path.Join(n...), err)
	}
	return full, nil
}

// sliceName returns a cgroup's systemd unit: {kubepods, burstable, pod1-2} is kubepods-burstable-pod1_2.slice.
func sliceName(n name) string {
	parts := make([]string, len(n))
	for i, part := range n {
		parts[i] = strings.ReplaceAll(part, "-", "_")
	}
	return strings.Join(parts, "-") + sliceSuffix
}

// uidOf returns the UID of the pod whose cgroup is the directory dir below the cgroup class; "" if dir is not a pod's.
func (l Layout) uidOf(class name, dir string) string {
	if l.Systemd {
		rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(sliceName(class), sliceSuffix)+"-")
		if !ok || !strings.HasSuffix(rest, sliceSuffix) {
			return ""
		}
		dir = strings.ReplaceAll(strings.TrimSuffix(rest, sliceSuffix), "_", "-")
	}
	uid, ok := strings.CutPrefix(dir, podPrefix)
	if !ok {
		return ""
	}
	return uid
}
