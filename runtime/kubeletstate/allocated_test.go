package kubeletstate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/must"
)

// recorded is such a file as a kubelet 1.37.1 wrote it.
const recorded = `{"data":"{\"entries\":{\"u1\":{\"ContainerResources\":{\"main\":{\"limits\":{\"memory\":\"64Mi\"},` +
	`\"requests\":{\"cpu\":\"250m\",\"memory\":\"64Mi\"}}},\"PodLevelResources\":null,\"EmptyDirVolumeLimits\":null}}}",` +
	`"checksum":%d}`

func requirements(cpu, memory string) corev1.ResourceRequirements {
	limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	requests := limits.DeepCopy()
	requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// What is allocated is read as a kubelet wrote it, and as Write does.
func TestAllocatedResourcesAreRead(t *testing.T) {
	want := map[string]PodResources{"u1": {
		Containers: map[string]corev1.ResourceRequirements{"main": requirements("250m", "64Mi")},
	}}
	dir := t.TempDir()
	if got, err := ReadAllocated(dir); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, AllocatedFile), fmt.Appendf(nil, recorded, 4189865096), 0o600))
	for range 2 {
		got, err := ReadAllocated(dir)
		if must.OK(t, err); !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		_, err = Write(dir, Given{Allocated: want})
		must.OK(t, err)
	}
}

func TestDamagedAllocatedResourcesDoNotCount(t *testing.T) {
	sealed := func(text string) string {
		return fmt.Sprintf(`{"data":%q,"checksum":%d}`, text, sumOf(text))
	}
	many := strings.Repeat(`"u%d":{},`, 1)
	all := ""
	for i := range maxPods + 1 {
		all += fmt.Sprintf(many, i)
	}
	for content, want := range map[string]string{
		fmt.Sprintf(recorded, 1): "it is damaged: its content has the checksum",
		`{"data":`:               "it is damaged",
		sealed(`{"entries":{"u1":{"ContainerResources":{"c":{"limits":{"cpu":"-1"}}}}}}`): `container "c" of pod "u1" has ` +
			"less than nothing",
		sealed(`{"entries":{"u1":{"PodLevelResources":{"requests":{"cpu":"-1"}}}}}`): `pod "u1" has less than nothing`,
		sealed(`{"entries":{` + strings.TrimSuffix(all, ",") + `}}`):                 "4097 pods, and at most 4096",
		sealed("[" + strings.Repeat("[],", maxValues) + "[]]"):                       "more than 262144 values",
	} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, AllocatedFile), []byte(content), 0o600))
		if got, err := ReadAllocated(dir); got != nil || err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), filepath.Join(dir, AllocatedFile)) {
			t.Errorf("%.80s: got %v, %v; want %q", content, got, err, want)
		}
	}
}
