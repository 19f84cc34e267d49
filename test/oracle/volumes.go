package oracle

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/kubelet"
)

// compareMemoryVolumes compares the size of each memory volume of a pod, on nodes of several sizes.
func compareMemoryVolumes(c *testCase) {
	parsed, problems := manifest.Decode(manifestPath, []byte(c.text), manifest.Options{NodeName: nodeName})
	if len(problems) > 0 || len(parsed) != 1 {
		c.count("rejected")
		return
	}
	pod := parsed[0].Pod
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].EmptyDir
		if source == nil || source.Medium != corev1.StorageMediumMemory {
			continue
		}
		c.count("volumes")
		for _, allocatable := range []int64{1, 1 << 20, 1 << 27, 7 << 30} {
			c.differs("size", volume.MemorySize(pod, source, allocatable),
				kubelet.MemoryVolumeSize(pod, &pod.Spec.Volumes[i], allocatable))
		}
	}
}
