package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/node"
)

// ID is the agent's mark on its sandboxes and containers.
const ID = "oracle"

// Driver performs our calls on a fake runtime.
type Driver struct {
	*calls.Works
	volumes *volume.Driver
	parsed  manifest.Parsed
	// later holds other manifests of the pod, by digest.
	later map[string]*corev1.Pod
}

// NewDriver returns the driver of one pod.
func NewDriver(o node.Options, fake *fakecri.Runtime, parsed manifest.Parsed) *Driver {
	d := &Driver{parsed: parsed, later: map[string]*corev1.Pod{}}
	links := filepath.Join(o.RootDir, "links")
	found := o.Objects
	if found == nil {
		found = &node.Objects{}
	}
	d.volumes = volume.New(volume.Options{
		RootDir: o.RootDir, PodLogDir: o.PodLogDir, ContainerLogDir: links, Objects: found,
		Allocatable: func() corev1.ResourceList { return o.Allocatable },
	})
	runtime := cri.New(cri.Options{
		Conn: fakecri.Conn{Runtime: fake}, Node: o.NodeName, Owner: cri.Owner{AgentID: ID}, Hash: pod.ContainerHash,
		PodLogDir: o.PodLogDir, ContainerLogDir: links,
		Network: cri.Network{
			HostIPs: o.HostIPs, ClusterDNS: o.ClusterDNS, ClusterDomain: o.ClusterDomain, ResolvConf: o.ResolvConf,
		},
		Security: cri.Security{SeccompDefault: o.SeccompDefault, SeccompRoot: filepath.Join(o.RootDir, "seccomp")},
		Resources: cri.Resources{
			CgroupV2: o.CgroupV2, Cgroups: cri.Cgroups{HugePages: o.HugePages, Swap: o.Swap},
			MemoryCapacity: o.MemoryCapacity,
		},
		Allocatable: func() corev1.ResourceList { return o.Allocatable },
		Volumes:     mountless{d.volumes}, Pulls: cri.Pulls{QPS: -1}, Objects: found,
	})
	d.Works = calls.NewWorks(calls.WorksOptions{
		Manifest: func(_ context.Context, digest string) (*corev1.Pod, error) {
			if pod := d.later[digest]; pod != nil {
				return pod, nil
			}
			return parsed.Pod, nil
		},
	}, runtime)
	return d
}

// mountless mounts no paths of volumes: the oracle runs without privilege. So its volumes are only directories, and
// what a case names on the host is not there.
type mountless struct{ *volume.Driver }

func (m mountless) Check(context.Context, *corev1.Pod, string) error { return nil }

func (m mountless) MountSubPath(pod *corev1.Pod, container string, index int, name, path string) (string, error) {
	return node.SubPath(m.PodDir(string(pod.UID)), name, container, index, filepath.Clean(path)), nil
}

// do performs one call. It only creates directories for volumes: no case may touch the paths of the host that it names.
func (d *Driver) do(ctx context.Context, id string, req *journaletv1.CallRequested) (*journaletv1.CallFinished, error) {
	req.PodUid = string(d.parsed.Pod.UID)
	if req.GetSetUpVolumes() != nil {
		return &journaletv1.CallFinished{IntentId: id}, d.createVolumes()
	}
	out := d.Perform(ctx, id, "pod/"+req.PodUid, req, false)
	if out == nil {
		return nil, fmt.Errorf("call %s is in doubt, though the fake runtime always returns", id)
	}
	return out, nil
}

// VolumeFiles returns the files of a volume of the pod.
func (d *Driver) VolumeFiles(ctx context.Context, name string) (map[string]volume.File, error) {
	return d.volumes.Files(ctx, d.parsed.Pod, name)
}

func (d *Driver) createVolumes() error {
	for _, v := range d.parsed.Pod.Spec.Volumes {
		if v.HostPath != nil || v.Image != nil {
			continue
		}
		path, err := d.volumes.Path(d.parsed.Pod, v.Name)
		if err == nil {
			err = os.MkdirAll(path, 0o750)
		}
		if err != nil {
			return fmt.Errorf("create the directory of volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// StartAll creates the pod's sandbox and starts its containers, in order and for the first time. It returns the outcome
// of each by the container's name; "" is the sandbox's.
func (d *Driver) StartAll(ctx context.Context) (map[string]*journaletv1.CallFinished, error) {
	out := map[string]*journaletv1.CallFinished{}
	if err := d.createVolumes(); err != nil {
		return nil, err
	}
	ids := &journaletv1.UserNamespace{HostId: node.UserNamespaceHostID, Length: node.UserNamespaceLength}
	if host := d.parsed.Pod.Spec.HostUsers; host == nil || *host {
		ids = nil
	}
	sandbox, err := d.do(ctx, "sandbox", &journaletv1.CallRequested{Work: &journaletv1.CallRequested_RunSandbox{
		RunSandbox: &journaletv1.RunSandbox{HostNetwork: d.parsed.Pod.Spec.HostNetwork, UserNamespace: ids},
	}})
	if err != nil {
		return nil, err
	}
	out[""] = sandbox
	if sandbox.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		return out, nil
	}
	for _, c := range slices.Concat(d.parsed.Pod.Spec.InitContainers, d.parsed.Pod.Spec.Containers) {
		started, err := d.do(ctx, "start "+c.Name, &journaletv1.CallRequested{Work: &journaletv1.CallRequested_StartContainer{
			StartContainer: &journaletv1.StartContainer{
				Container: c.Name, SandboxId: sandbox.GetSandboxId(), UserNamespace: ids,
			},
		}})
		if err != nil {
			return nil, err
		}
		out[c.Name] = started
		failed := started.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED
		if failed && len(out)-1 <= len(d.parsed.Pod.Spec.InitContainers) {
			return out, nil // the containers after an init container wait for it
		}
	}
	return out, nil
}

// maxSteps bounds the records until a decider has to settle.
const maxSteps = 500

// never is a time that no case reaches.
var never = time.Unix(1<<40, 0)
