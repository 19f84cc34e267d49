package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"unsafe"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/projected"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"github.com/journalet/journalet/runtime/objects"
)

//go:linkname collectData k8s.io/kubernetes/pkg/volume/projected.(*projectedVolumeMounter).collectData
func collectData(mounter unsafe.Pointer, args volume.MounterArgs) (map[string]volumeutil.FileProjection, error)

// VolumeFiles returns the files of a configMap, secret, downwardAPI or projected volume, by their clean paths. The
// kubelet collects the files of the first three with the same functions as the files of a projected volume.
func VolumeFiles(o Options, pod *v1.Pod, v *v1.Volume) (map[string]volumeutil.FileProjection, error) {
	plugin := projected.ProbeVolumePlugins()[0]
	if err := plugin.Init(volumeHost{options: o}); err != nil {
		return nil, fmt.Errorf("plugin of projected volumes: %w", err)
	}
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{Projected: projectionOf(v)}})
	mounter, err := plugin.(interface {
		NewMounter(*volume.Spec, *v1.Pod) (volume.Mounter, error)
	}).NewMounter(spec, pod)
	if err != nil {
		return nil, fmt.Errorf("mounter of a projected volume: %w", err)
	}
	args := volume.MounterArgs{FsUser: volumeutil.FsUserFrom(pod)}
	if pod.Spec.SecurityContext != nil {
		args.FsGroup = pod.Spec.SecurityContext.FSGroup
	}
	files, err := collectData(reflect.ValueOf(mounter).UnsafePointer(), args)
	if err != nil {
		return nil, err
	}
	out := map[string]volumeutil.FileProjection{}
	for path, f := range files {
		out[filepath.Clean(path)] = f // as its writer does
	}
	return out, nil
}

// projectionOf returns a volume as a projected one, with the API's default of its mode.
func projectionOf(v *v1.Volume) *v1.ProjectedVolumeSource {
	out := &v1.ProjectedVolumeSource{}
	switch {
	case v.Projected != nil:
		out = v.Projected.DeepCopy()
	case v.ConfigMap != nil:
		out.DefaultMode = v.ConfigMap.DefaultMode
		out.Sources = []v1.VolumeProjection{{ConfigMap: &v1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional,
		}}}
	case v.Secret != nil:
		out.DefaultMode = v.Secret.DefaultMode
		out.Sources = []v1.VolumeProjection{{Secret: &v1.SecretProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items,
			Optional: v.Secret.Optional,
		}}}
	case v.DownwardAPI != nil:
		out.DefaultMode = v.DownwardAPI.DefaultMode
		out.Sources = []v1.VolumeProjection{{DownwardAPI: &v1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}
	}
	if out.DefaultMode == nil {
		mode := int32(0o644)
		out.DefaultMode = &mode
	}
	return out
}

// volumeHost is the node of the kubelet's volume plugins. A method that it does not have is not expected to be called.
type volumeHost struct {
	volume.VolumeHost
	volume.KubeletVolumeHost
	options Options
}

func (h volumeHost) GetPodVolumeDir(uid types.UID, plugin, name string) string {
	return filepath.Join(h.options.RootDir, "pods", string(uid), "volumes", plugin, name)
}

func (h volumeHost) GetKubeClient() clientset.Interface { return client{} }

func (h volumeHost) GetNodeAllocatable() (v1.ResourceList, error) { return h.options.Allocatable, nil }

func (h volumeHost) GetSecretFunc() func(namespace, name string) (*v1.Secret, error) {
	return secrets{from: h.options.Objects}.GetSecret
}

func (h volumeHost) GetConfigMapFunc() func(namespace, name string) (*v1.ConfigMap, error) {
	return configMaps{from: h.options.Objects}.GetConfigMap
}

func (h volumeHost) GetServiceAccountTokenFunc() func(
	namespace, name string, tr *authenticationv1.TokenRequest,
) (*authenticationv1.TokenRequest, error) {
	return func(_, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		pod := &v1.Pod{Spec: v1.PodSpec{ServiceAccountName: name}}
		source := &v1.ServiceAccountTokenProjection{ExpirationSeconds: tr.Spec.ExpirationSeconds}
		if len(tr.Spec.Audiences) > 0 {
			source.Audience = tr.Spec.Audiences[0]
		}
		token, err := h.options.Objects.Token(context.Background(), pod, source)
		return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: token}}, err
	}
}

func (h volumeHost) DeleteServiceAccountTokenFunc() func(types.UID) { return func(types.UID) {} }

func (h volumeHost) GetTrustAnchorsByName(ctx context.Context, name string, allowMissing bool) ([]byte, error) {
	return h.bundle(ctx, &v1.ClusterTrustBundleProjection{Name: &name}, allowMissing)
}

func (h volumeHost) GetTrustAnchorsBySigner(
	ctx context.Context, signer string, labels *metav1.LabelSelector, allowMissing bool,
) ([]byte, error) {
	return h.bundle(ctx, &v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: labels}, allowMissing)
}

func (h volumeHost) bundle(
	ctx context.Context, source *v1.ClusterTrustBundleProjection, allowMissing bool,
) ([]byte, error) {
	found, err := h.options.Objects.TrustBundle(ctx, objects.Owner{}, source)
	if err != nil && allowMissing {
		return nil, nil
	}
	return found, err
}
