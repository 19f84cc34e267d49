package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/expand"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/pod/downward"
)

// environment returns a container's variables: first envFrom's, which env replaces by name, then the services', unless
// envFrom or env sets the same name. A value in env may refer to any variable before it. The order is the manifest's;
// the keys of one object are sorted. The variables' size is charged to the budget. If another object or another file
// can cure an error, the failure is retryable. Errors never contain values. contents are the values of objects and
// files.
func (d *Driver) environment(
	ctx context.Context, in containerInput, budget *expand.Budget,
) (envs []*runtimeapi.KeyValue, contents []string, err error) {
	e := environment{
		objectReader: objectReader{getter: d.opts.Objects, owner: objects.OwnerOf(in.pod)},
		volumes:      d.opts.Volumes, in: in, pod: d.downward(in), budget: budget, at: map[string]int{},
		origin: map[string]string{},
	}
	if e.services, err = d.serviceEnv(ctx, in.pod); err == nil {
		err = e.addContainer(ctx)
	}
	return e.out, e.contents, err
}

// serviceEnv returns the variables that name the services of the pod's namespace, as enableServiceLinks asks for, and
// the API server's. Without a cluster there are no such variables. An error is temporary.
func (d *Driver) serviceEnv(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if d.opts.ServiceEnv == nil {
		return nil, nil
	}
	env, err := d.opts.ServiceEnv(ctx, pod, pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks)
	if err != nil && ctx.Err() == nil {
		err = calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	}
	return env, err
}

// downward returns what variables may read of the pod and its node.
func (d *Driver) downward(in containerInput) downward.Pod {
	pod := downward.Pod{Pod: in.pod, Node: d.opts.Node, PodIPs: in.podIPs}
	if pod.HostIPs, pod.NoHostIP = d.nodeIPs(); pod.NoHostIP != nil {
		pod.NoHostIP = calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, pod.NoHostIP.Error())
	}
	if d.opts.Allocatable != nil {
		pod.Allocatable = downward.WithPodLimits(d.opts.Allocatable(), in.pod)
	}
	return pod
}

// environment is the variables of one container while they are collected.
type environment struct {
	objectReader
	volumes  Volumes
	in       containerInput
	pod      downward.Pod
	budget   *expand.Budget
	services map[string]string
	out      []*runtimeapi.KeyValue
	at       map[string]int // where in out a name is
	file     envFile
	contents []string
	// origin says where the value of a variable is from, if not from the manifest.
	origin map[string]string
}

// lookup returns the value that a reference stands for.
func (e *environment) lookup(name string) (string, bool) {
	if i, ok := e.at[name]; ok {
		return string(e.out[i].GetValue()), true
	}
	value, ok := e.services[name]
	return value, ok
}

// set adds a variable, or replaces its value: a name that is set twice counts once, with its last value. A nil refers
// leaves the value as it is.
func (e *environment) set(name, value string, refers expand.Lookup) error {
	value, err := e.budget.Variable(name, value, refers)
	if err != nil {
		return fmt.Errorf("environment variable %s: %w", name, err)
	}
	if i, again := e.at[name]; again {
		e.out[i].Value = []byte(value)
		return nil
	}
	e.at[name] = len(e.out)
	e.out = append(e.out, &runtimeapi.KeyValue{Key: name, Value: []byte(value)})
	return nil
}

// addContainer adds all variables of the container.
func (e *environment) addContainer(ctx context.Context) error {
	for i := range e.in.container.EnvFrom {
		if err := e.addFrom(ctx, &e.in.container.EnvFrom[i]); err != nil {
			return err
		}
	}
	for i := range e.in.container.Env {
		if err := e.add(ctx, &e.in.container.Env[i]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.services)) {
		if _, set := e.at[name]; !set {
			if err := e.set(name, e.services[name], nil); err != nil {
				return err
			}
		}
	}
	return e.checkText()
}

// checkText returns an error for the first variable that a runtime would not pass on as it is. Linux takes all bytes
// but NUL in a variable. A runtime does not, although CRI's field is bytes: the OCI specification of a container is
// JSON, which turns other bytes into U+FFFD (ADR 081). This also rejects what refers to such a variable in command,
// args or subPathExpr.
func (e *environment) checkText() error {
	for _, v := range e.out {
		err := expand.CheckText(v.GetValue())
		if err == nil {
			continue
		}
		from := e.origin[v.GetKey()]
		if from != "" {
			from = ", from " + from + ","
		}
		return fmt.Errorf("environment variable %s%s %w", v.GetKey(), from, err)
	}
	return nil
}

// addFrom adds the variables of an object. An optional object that is missing adds no variables.
func (e *environment) addFrom(ctx context.Context, from *corev1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		m, err := e.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		if err != nil || m == nil {
			return err
		}
		return addAll(e, from.Prefix, m.Data, "ConfigMap "+e.owner.Namespace+"/"+from.ConfigMapRef.Name)
	case from.SecretRef != nil:
		s, err := e.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		if err != nil || s == nil {
			return err
		}
		return addAll(e, from.Prefix, s.Data, "Secret "+e.owner.Namespace+"/"+from.SecretRef.Name)
	}
	return nil
}

// addAll adds all keys of an object. Each key, with its prefix, is a valid name of a variable: keys and prefixes may
// have fewer characters than such names.
func addAll[T string | []byte](e *environment, prefix string, data map[string]T, object string) error {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		e.contents = append(e.contents, string(data[key]))
		if err := e.set(prefix+key, string(data[key]), nil); err != nil {
			return err
		}
		e.origin[prefix+key] = "key " + key + " of " + object
	}
	return nil
}

// add adds a variable of the manifest, unless it is optional and what it reads is missing: then what envFrom says
// stays.
func (e *environment) add(ctx context.Context, v *corev1.EnvVar) error {
	if v.Value != "" || v.ValueFrom == nil {
		delete(e.origin, v.Name)
		return e.set(v.Name, v.Value, e.lookup)
	}
	value, found, err := e.valueFrom(ctx, v.ValueFrom)
	switch {
	case calls.IsFailure(err):
		return err // in the kubelet's words
	case err != nil:
		return fmt.Errorf("environment variable %s: %w", v.Name, err)
	case !found:
		return nil
	}
	e.origin[v.Name] = originOf(v.ValueFrom, e.owner.Namespace)
	return e.set(v.Name, value, nil) // what is read is literal
}

// originOf says for people where a value is from; "" for what is always text.
func originOf(from *corev1.EnvVarSource, namespace string) string {
	switch {
	case from.ConfigMapKeyRef != nil:
		return "key " + from.ConfigMapKeyRef.Key + " of ConfigMap " + namespace + "/" + from.ConfigMapKeyRef.Name
	case from.SecretKeyRef != nil:
		return "key " + from.SecretKeyRef.Key + " of Secret " + namespace + "/" + from.SecretKeyRef.Name
	case from.FileKeyRef != nil:
		return "key " + from.FileKeyRef.Key + " of the file " + from.FileKeyRef.Path + " in volume " +
			from.FileKeyRef.VolumeName
	}
	return ""
}

func (e *environment) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = e.pod.Field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = e.resource(from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		value, found, err = e.configMapKey(ctx, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		value, found, err = e.secretKey(ctx, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		value, found, err = e.fileKey(from.FileKeyRef)
	default:
		return "", false, errNoSource
	}
	if found {
		e.contents = append(e.contents, value)
	}
	return value, found, err
}

// resource returns a resource of a container. As in the kubelet, the limits of an init container that is named have no
// defaults.
func (e *environment) resource(ref *corev1.ResourceFieldSelector) (string, error) {
	pod := e.pod
	named := func(c corev1.Container) bool { return c.Name == ref.ContainerName }
	if slices.ContainsFunc(pod.Spec.InitContainers, named) {
		pod.Allocatable = nil
	}
	return pod.Resource(e.in.container, ref)
}

// errNoSource means that valueFrom has a source that this version does not know.
var errNoSource = errors.New("this kind of valueFrom is not supported; use fieldRef, resourceFieldRef, " +
	"configMapKeyRef, secretKeyRef or fileKeyRef")

// readsContents reports whether a container's configuration depends on contents that may change without the manifest:
// contents of objects, or of files that other containers write.
func readsContents(c *corev1.Container) bool {
	return len(c.EnvFrom) > 0 || slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool {
		from := v.ValueFrom
		return from != nil && (from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil || from.FileKeyRef != nil)
	})
}

// configError returns an error of a container's configuration as the call's failure. The end of ctx is not a failure.
func configError(ctx context.Context, c *corev1.Container, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case calls.IsFailure(err):
		return err
	}
	f := calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
	f.Retryable = readsContents(c)
	return f
}
