package manifest

import (
	corev1 "k8s.io/api/core/v1"
)

// volumeFields are the supported fields of a volume. The fields user, defaultUser and mode of an emptyDir belong to a
// feature that is off by default in Kubernetes 1.37, and its API server and kubelet drop them.
var volumeFields = []string{
	"name", "emptyDir.medium", "emptyDir.sizeLimit", "hostPath.path", "hostPath.type",
	"image.reference", "image.pullPolicy",
	"nfs.server", "nfs.path", "nfs.readOnly",
	// Of the API server only (staticVolume); volumes of clouds by a CSI driver.
	"csi", "persistentVolumeClaim", "ephemeral",
	"awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "azureFile", "cinder", "vsphereVolume", "portworxVolume",
	"configMap.name", "configMap.optional", "configMap.defaultMode",
	"secret.secretName", "secret.optional", "secret.defaultMode",
	"downwardAPI.defaultMode",
	"projected.defaultMode",
	"projected.sources[].configMap.name", "projected.sources[].configMap.optional",
	"projected.sources[].secret.name", "projected.sources[].secret.optional",
	"projected.sources[].serviceAccountToken.audience", "projected.sources[].serviceAccountToken.expirationSeconds",
	"projected.sources[].serviceAccountToken.path",
	"projected.sources[].clusterTrustBundle.name", "projected.sources[].clusterTrustBundle.signerName",
	"projected.sources[].clusterTrustBundle.labelSelector", "projected.sources[].clusterTrustBundle.optional",
	"projected.sources[].clusterTrustBundle.path",
	// Of the API server only: staticVolume.
	"projected.sources[].podCertificate.signerName", "projected.sources[].podCertificate.keyType",
	"projected.sources[].podCertificate.maxExpirationSeconds", "projected.sources[].podCertificate.userAnnotations",
	"projected.sources[].podCertificate.credentialBundlePath", "projected.sources[].podCertificate.keyPath",
	"projected.sources[].podCertificate.certificateChainPath",
}

// withVolumes adds the fields of volumes to other fields.
func withVolumes(paths ...string) []string {
	const volume = "spec.volumes[]."
	for _, f := range volumeFields {
		paths = append(paths, volume+f)
	}
	for _, source := range []string{"configMap", "secret", "projected.sources[].configMap", "projected.sources[].secret"} {
		for _, f := range []string{"key", "path", "mode"} {
			paths = append(paths, volume+source+".items[]."+f)
		}
	}
	for _, source := range []string{"downwardAPI", "projected.sources[].downwardAPI"} {
		for _, f := range []string{"path", "fieldRef", "resourceFieldRef", "mode"} {
			paths = append(paths, volume+source+".items[]."+f)
		}
	}
	return paths
}

// defaultTokenSeconds is the API server's default for the lifetime of a projected token, in seconds.
const defaultTokenSeconds int64 = 3600

// defaultSources sets the defaults of the volumes that hold objects, and of image volumes.
func defaultSources(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		setDefaultPointer(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.Secret != nil:
		setDefaultPointer(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		setDefaultPointer(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownwardFiles(v.DownwardAPI.Items)
	case v.Projected != nil:
		setDefaultPointer(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			if s.DownwardAPI != nil {
				defaultDownwardFiles(s.DownwardAPI.Items)
			}
			if s.ServiceAccountToken != nil {
				setDefaultPointer(&s.ServiceAccountToken.ExpirationSeconds, defaultTokenSeconds)
			}
		}
	case v.Image != nil:
		setDefault(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultDownwardFiles(files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		defaultFieldRef(files[i].FieldRef)
	}
}
