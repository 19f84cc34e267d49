package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri/envfile"
	"github.com/journalet/journalet/runtime/objects"
)

// objectReader reads the objects of one pod, each once, so that all variables of a container have the same
// version of it. Its failures have the kubelet's words, and hold no value.
type objectReader struct {
	getter     objects.Getter
	owner      objects.Owner
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
}

// configMap returns a ConfigMap; nil if it is optional and missing.
func (r *objectReader) configMap(ctx context.Context, name string, optional *bool) (*corev1.ConfigMap, error) {
	if m, ok := r.configMaps[name]; ok {
		return m, nil
	}
	if r.getter == nil {
		return nil, unavailable("configMap", r.owner.Namespace, name)
	}
	m, err := r.getter.ConfigMap(ctx, r.owner, name)
	if err != nil {
		return nil, missing(ctx, err, optional)
	}
	if r.configMaps == nil {
		r.configMaps = map[string]*corev1.ConfigMap{}
	}
	r.configMaps[name] = m
	return m, nil
}

// secret returns a Secret; nil if it is optional and missing.
func (r *objectReader) secret(ctx context.Context, name string, optional *bool) (*corev1.Secret, error) {
	if s, ok := r.secrets[name]; ok {
		return s, nil
	}
	if r.getter == nil {
		return nil, unavailable("secret", r.owner.Namespace, name)
	}
	s, err := r.getter.Secret(ctx, r.owner, name)
	if err != nil {
		return nil, missing(ctx, err, optional)
	}
	if r.secrets == nil {
		r.secrets = map[string]*corev1.Secret{}
	}
	r.secrets[name] = s
	return s, nil
}

func unavailable(kind, namespace, name string) error {
	return calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
		fmt.Sprintf("couldn't get %s %s/%s, the agent has no store of objects", kind, namespace, name))
}

// missing returns nil for an object that is missing and optional.
func missing(ctx context.Context, err error, optional *bool) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isTrue(optional) && errors.Is(err, objects.ErrNotFound):
		return nil
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, err.Error())
}

func isTrue(b *bool) bool { return b != nil && *b }

// configMapKey returns one value of a ConfigMap.
func (r *objectReader) configMapKey(ctx context.Context, ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	m, err := r.configMap(ctx, ref.Name, ref.Optional)
	if err != nil || m == nil {
		return "", false, err
	}
	value, ok := m.Data[ref.Key]
	return value, ok, r.missingKey("ConfigMap", ref.Name, ref.Key, ok || isTrue(ref.Optional))
}

// secretKey returns one value of a Secret.
func (r *objectReader) secretKey(ctx context.Context, ref *corev1.SecretKeySelector) (string, bool, error) {
	s, err := r.secret(ctx, ref.Name, ref.Optional)
	if err != nil || s == nil {
		return "", false, err
	}
	value, ok := s.Data[ref.Key]
	return string(value), ok, r.missingKey("Secret", ref.Name, ref.Key, ok || isTrue(ref.Optional))
}

func (r *objectReader) missingKey(kind, name, key string, fine bool) error {
	if fine {
		return nil
	}
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG,
		fmt.Sprintf("couldn't find key %s in %s %s/%s", key, kind, r.owner.Namespace, name))
}

// envFile is the file that was read last: the variables of a container mostly come from one.
type envFile struct {
	path string
	data []byte
}

// fileKey returns one value of a file that another container of the pod has written. The file is untrusted: it is read
// within its volume, only if it is a regular file, and within a bound. As in the kubelet, an empty value counts as
// missing; so does a missing file, if it is optional, as the API has it.
func (e *environment) fileKey(ref *corev1.FileKeySelector) (value string, found bool, err error) {
	dir, err := e.volumes.Path(e.in.pod, ref.VolumeName)
	if err != nil {
		return "", false, calls.Fail(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName))
	}
	path := filepath.Join(dir, ref.Path)
	if path != e.file.path {
		data, err := bounded.ReadFileWithin(dir, ref.Path, envfile.MaxFileBytes)
		if errors.Is(err, fs.ErrNotExist) && isTrue(ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, unreadable(err)
		}
		e.file = envFile{path, data}
	}
	value, err = envfile.Find(e.file.data, ref.Key)
	switch {
	case err != nil:
		return "", false, unreadable(err)
	case value == "" && !isTrue(ref.Optional):
		return "", false, calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG,
			fmt.Sprintf("environment variable key %q not found in file %q", ref.Key, path))
	}
	return value, value != "", nil
}

// unreadable is the failure of a file of variables; err shows nothing of the file.
func unreadable(err error) error {
	return calls.Retryable(journaletv1.CallError_CALL_ERROR_CONFIG, "couldn't parse env file: "+err.Error())
}
