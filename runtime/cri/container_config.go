package cri

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/expand"
)

// containerInput is the input of a container's configuration, beside the driver's options.
type containerInput struct {
	pod       *corev1.Pod
	container *corev1.Container
	attempt   uint32
	intent    string
	image     imageInfo
	pulled    []string // image volumes that were pulled for this start
	podIPs    []string
	// placement is where the container runs; nil: anywhere.
	placement *journaletv1.Placement
	// ids are the ids of the pod's user namespace; nil: the node's.
	ids *journaletv1.UserNamespace
	// target is the container whose process namespace this one joins, by id; "": none.
	target string
	// budget is what the variables leave for command and arguments.
	budget expand.Budget
	envs   []*runtimeapi.KeyValue
	mounts []*runtimeapi.Mount
	// devices are the devices of device plugins, with what the plugins want for the container.
	devices []*journaletv1.ContainerDevices
	// blocks are the volumes that it has as block devices.
	blocks []*runtimeapi.Device
	// claimDevices are the CDI devices of its claims, by name.
	claimDevices []string
}

// logName returns the log file of one attempt, in the container's log directory.
func logName(attempt uint32) string { return strconv.FormatUint(uint64(attempt), 10) + ".log" }

// containerConfig returns the container configuration that the kubelet (1.37) would send. It has no side effects.
func (d *Driver) containerConfig(in containerInput) (*runtimeapi.ContainerConfig, error) {
	security, err := d.containerSecurity(in)
	if err != nil {
		return nil, err
	}
	annotations, err := d.containerAnnotations(in)
	if err != nil {
		return nil, err
	}
	c := in.container
	command, args, err := expandCommand(c, in.envs, &in.budget)
	if err != nil {
		return nil, err
	}
	mapIDs(in.mounts, security.GetNamespaceOptions().GetUsernsOptions())
	return &runtimeapi.ContainerConfig{
		CDIDevices: claimCDIDevices(append(cdiDevices(c), pluginCDIDevices(in.devices)...), in.claimDevices),
		Devices:    append(deviceNodes(in.devices), in.blocks...),
		Metadata:   &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: in.attempt},
		Image:      &runtimeapi.ImageSpec{Image: in.image.ref, UserSpecifiedImage: c.Image},
		Command:    command,
		Args:       args,
		WorkingDir: c.WorkingDir,
		Envs:       in.envs,
		Mounts:     append(deviceMounts(in.devices), in.mounts...),
		Labels: map[string]string{
			LabelContainerName: c.Name,
			LabelPodName:       in.pod.Name,
			LabelPodNamespace:  in.pod.Namespace,
			LabelPodUID:        string(in.pod.UID),
		},
		Annotations: annotations,
		LogPath:     c.Name + "/" + logName(in.attempt),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stopSignal(c),
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: placed(d.opts.Resources.ofContainer(in.pod, c), in.placement), SecurityContext: security,
		},
	}, nil
}

// stopSignal returns CRI's name of the container's stop signal. Without one, the runtime uses its default: the image's
// stop signal, or SIGTERM.
func stopSignal(c *corev1.Container) runtimeapi.Signal {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	return runtimeapi.Signal(runtimeapi.Signal_value["SIGNAL_"+name])
}

func expandCommand(
	c *corev1.Container, envs []*runtimeapi.KeyValue, budget *expand.Budget,
) (command, args []string, err error) {
	values := make(map[string]string, len(envs))
	for _, e := range envs {
		values[e.GetKey()] = string(e.GetValue())
	}
	lookup := func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
	all := func(list []string, name string) ([]string, error) {
		var out []string
		for i, s := range list {
			text, err := budget.Argument(s, lookup)
			if err != nil {
				return nil, fmt.Errorf("%s[%d] %w", name, i, err)
			}
			out = append(out, text)
		}
		return out, nil
	}
	if command, err = all(c.Command, "command"); err == nil {
		args, err = all(c.Args, "args")
	}
	return command, args, err
}

func (d *Driver) containerAnnotations(in containerInput) (map[string]string, error) {
	c := in.container
	a := deviceAnnotations(in.devices)
	maps.Copy(a, map[string]string{
		AnnotationHash:                     d.opts.Hash(c),
		AnnotationRestartCount:             strconv.FormatUint(uint64(in.attempt), 10),
		AnnotationTerminationMessagePath:   c.TerminationMessagePath,
		AnnotationTerminationMessagePolicy: string(c.TerminationMessagePolicy),
		AnnotationIntent:                   in.intent,
		AnnotationAgent:                    d.opts.Owner.AgentID,
	})
	if s := in.pod.DeletionGracePeriodSeconds; s != nil {
		a[AnnotationDeletionGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if s := in.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		a[AnnotationTerminationGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		raw, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("encode the preStop hook: %w", err)
		}
		annotate(a, AnnotationPreStopHandler, raw)
	}
	if len(c.Ports) > 0 {
		raw, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, fmt.Errorf("encode the ports: %w", err)
		}
		annotate(a, AnnotationPorts, raw)
	}
	return a, nil
}

// MaxAnnotationBytes bounds an annotation that describes a container for others than this agent, which has its
// manifest. The runtime lists the annotations of all containers in one message of at most 16 MiB.
const MaxAnnotationBytes = 1 << 10

// annotate adds an annotation, if it is not too long: half of it would be of no use.
func annotate(a map[string]string, name string, value []byte) {
	if len(value) <= MaxAnnotationBytes {
		a[name] = string(value)
	}
}
