package cgroup

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func size(cpu, memory, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(cpu, memory), Limits: list(cpuLimit, memoryLimit)}
}

func podOf(whole *corev1.ResourceRequirements, containers ...corev1.ResourceRequirements) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "12-34"}}
	p.Spec.Resources = whole
	for _, r := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: r})
	}
	return p
}

func TestPodCgroupSumsContainers(t *testing.T) {
	whole := size("1", "1Gi", "2", "2Gi")
	overhead := podOf(nil, size("1", "1Gi", "1", "1Gi"))
	overhead.Spec.Overhead = list("500m", "64Mi")
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want Values
	}{
		"nothing asked for": {podOf(nil, size("", "", "", "")), Values{Shares: 2}},
		"guaranteed": {podOf(nil, size("1", "1Gi", "1", "1Gi"), size("500m", "1Gi", "500m", "1Gi")),
			Values{Shares: 1536, QuotaMicros: 150_000, PeriodMicros: 100_000, MemoryBytes: 2 << 30}},
		"overhead counts": {overhead,
			Values{Shares: 1536, QuotaMicros: 150_000, PeriodMicros: 100_000, MemoryBytes: 1<<30 + 64<<20}},
		"one container without a limit": {podOf(nil, size("1", "1Gi", "1", "2Gi"), size("100m", "", "", "1Gi")),
			Values{Shares: 1126, MemoryBytes: 3 << 30}},
		"the least": {podOf(nil, size("1m", "", "1m", "")), Values{Shares: 2, QuotaMicros: 1000, PeriodMicros: 100_000}},
		"the pod's own, whatever its containers lack": {podOf(&whole, size("", "", "", ""), size("100m", "", "1", "")),
			Values{Shares: 1024, QuotaMicros: 200_000, PeriodMicros: 100_000, MemoryBytes: 2 << 30}},
	} {
		if got := OfPod(c.pod, CPUQuota{}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestValuesFitCgroupVersion(t *testing.T) {
	v := Values{Shares: 1024, QuotaMicros: 50_000, PeriodMicros: 100_000, MemoryBytes: 1 << 20, Pids: 7}
	one, two := v.resources(false), v.resources(true)
	if one.CpuShares != 1024 || one.CpuWeight != 0 || one.CpuQuota != 50_000 || one.CpuPeriod != 100_000 ||
		one.Memory != 1<<20 || *one.PidsLimit != 7 {
		t.Errorf("cgroup v1: %+v", one)
	}
	if two.CpuShares != 0 || two.CpuWeight != 39 || two.CpuQuota != 50_000 || two.Memory != 1<<20 || *two.PidsLimit != 7 {
		t.Errorf("cgroup v2: %+v", two)
	}
	for shares, weight := range map[uint64]uint64{2: 1, 1024: 39, 262144: 10000} {
		if got := weightOf(shares); got != weight {
			t.Errorf("%d shares weigh %d, want %d", shares, got, weight)
		}
	}
	if none := (Values{}).resources(true); none.CpuWeight != 0 || none.PidsLimit != nil || none.Memory != 0 {
		t.Errorf("without values: %+v", none)
	}
}

func TestWidenedKeepsLargerLimits(t *testing.T) {
	from := Values{Shares: 100, QuotaMicros: 50_000, PeriodMicros: 100_000, MemoryBytes: 10}
	to := Values{Shares: 50, QuotaMicros: 80_000, PeriodMicros: 100_000, MemoryBytes: 5}
	if got, want := widened(from, to),
		(Values{Shares: 100, QuotaMicros: 80_000, PeriodMicros: 100_000, MemoryBytes: 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := widened(Values{Shares: 2}, to), (Values{Shares: 50}); got != want {
		t.Errorf("a first limit must come after the containers: %+v, want %+v", got, want)
	}
}

func TestLimitsOfCPUAreEnforcedWithinThePeriodOrNotAtAll(t *testing.T) {
	type pair struct{ quota, period int64 }
	for _, c := range []struct {
		by    CPUQuota
		milli int64
		want  pair
	}{
		{CPUQuota{}, 250, pair{25_000, 100_000}}, {CPUQuota{}, 0, pair{0, 100_000}}, {CPUQuota{}, 1, pair{1000, 100_000}},
		{CPUQuota{Period: 10_000}, 250, pair{2500, 10_000}}, {CPUQuota{Period: 10_000}, 3000, pair{30_000, 10_000}},
		{CPUQuota{Period: 10_000}, 50, pair{1000, 10_000}}, {CPUQuota{Period: 1500}, 1333, pair{1999, 1500}},
		{CPUQuota{Period: 1_000_000}, 1, pair{1000, 1_000_000}},
		{CPUQuota{Off: true}, 250, pair{}}, {CPUQuota{Off: true, Period: 10_000}, 0, pair{}},
	} {
		if quota, period := c.by.Of(c.milli); (pair{quota, period}) != c.want {
			t.Errorf("%+v of %dm: %d in %d, want %+v", c.by, c.milli, quota, period, c.want)
		}
	}
	limited, open := podOf(nil, size("1", "1Gi", "1", "1Gi")), podOf(nil, size("1", "1Gi", "", ""))
	for _, c := range []struct {
		pod  *corev1.Pod
		by   CPUQuota
		want Values
	}{
		{limited, CPUQuota{Period: 10_000}, Values{Shares: 1024, QuotaMicros: 10_000, PeriodMicros: 10_000,
			MemoryBytes: 1 << 30}},
		{limited, CPUQuota{Off: true}, Values{Shares: 1024, QuotaMicros: -1, MemoryBytes: 1 << 30}},
		{open, CPUQuota{Off: true}, Values{Shares: 1024}},
	} {
		if got := OfPod(c.pod, c.by); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.by, got, c.want)
		}
	}
	if r := (Values{QuotaMicros: -1}).resources(true); r.CpuQuota != -1 {
		t.Errorf("an earlier quota stays: %+v", r)
	}
}

func TestWideningComparesQuotasOfOnePeriod(t *testing.T) {
	half := Values{Shares: 2, QuotaMicros: 50_000, PeriodMicros: 100_000}
	for name, c := range map[string]struct{ to, want Values }{
		"more, in a shorter period": {Values{Shares: 2, QuotaMicros: 9000, PeriodMicros: 10_000},
			Values{Shares: 2, QuotaMicros: 9000, PeriodMicros: 10_000}},
		"less, in a shorter period": {Values{Shares: 2, QuotaMicros: 2000, PeriodMicros: 10_000},
			Values{Shares: 2, QuotaMicros: 5000, PeriodMicros: 10_000}},
		"none any more": {Values{Shares: 2, QuotaMicros: -1}, Values{Shares: 2, QuotaMicros: -1}},
	} {
		if got := widened(half, c.to); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	none, to := Values{Shares: 2, QuotaMicros: -1}, Values{Shares: 2, QuotaMicros: 9000, PeriodMicros: 10_000}
	if got := widened(none, to); got != (Values{Shares: 2}) {
		t.Errorf("a first limit comes after the containers: %+v", got)
	}
}

func TestCgroupPathsMatchKubelet(t *testing.T) {
	guaranteed, burstable, none := podOf(nil, size("1", "1Gi", "1", "1Gi")), podOf(nil, size("1", "", "", "")), podOf(nil)
	for _, c := range []struct {
		layout Layout
		pod    *corev1.Pod
		want   string
	}{
		{Layout{}, guaranteed, "/kubepods/pod12-34"},
		{Layout{Root: "/"}, burstable, "/kubepods/burstable/pod12-34"},
		{Layout{Root: "/a/b/"}, none, "/a/b/kubepods/besteffort/pod12-34"},
		{Layout{Systemd: true}, guaranteed, "/kubepods.slice/kubepods-pod12_34.slice"},
		{Layout{Systemd: true}, burstable, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice"},
		{Layout{Systemd: true, Root: "/a"}, none,
			"/a.slice/a-kubepods.slice/a-kubepods-besteffort.slice/a-kubepods-besteffort-pod12_34.slice"},
	} {
		got, err := c.layout.Pod(c.pod)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s (%v), want %s", c.layout, got, err, c.want)
		}
	}
}

func TestUnusableUIDIsRefused(t *testing.T) {
	for uid, layouts := range map[string][]Layout{
		"a_b": {{Systemd: true}}, "": {{}, {Systemd: true}}, "..": {{}}, "a/b": {{}, {Systemd: true}},
	} {
		for _, l := range layouts {
			if err := l.check(uid); err == nil {
				t.Errorf("%+v accepts %q", l, uid)
			}
		}
	}
	if err := (Layout{}).check("a_b"); err != nil {
		t.Errorf("with cgroupfs: %v", err)
	}
}

func TestUIDOfCgroupName(t *testing.T) {
	for _, l := range []Layout{{}, {Systemd: true}} {
		found := map[string]string{}
		for _, qos := range classes {
			above := l.class(qos)
			for _, dir := range []string{
				"pod12-34", "burstable", "other", "kubepods-pod12_34.slice", "kubepods-burstable-pod12_34.slice",
				"kubepods-burstable.slice", "kubepods-pod.mount",
			} {
				if uid := l.uidOf(above, dir); uid != "" {
					found[string(qos)+" "+dir] = uid
				}
			}
		}
		want := map[string]string{"Guaranteed pod12-34": "12-34", "Burstable pod12-34": "12-34",
			"BestEffort pod12-34": "12-34"}
		if l.Systemd {
			want = map[string]string{"Guaranteed kubepods-pod12_34.slice": "12-34",
				"Burstable kubepods-burstable-pod12_34.slice": "12-34"}
		}
		if !reflect.DeepEqual(found, want) {
			t.Errorf("%+v: %v, want %v", l, found, want)
		}
	}
}

func TestCPUBeyondWhatACgroupHoldsIsTheLargest(t *testing.T) {
	for _, milli := range []int64{256_000, 1 << 40, math.MaxInt64} {
		if got := SharesOf(milli); got != maxShares {
			t.Errorf("%d thousandths: %d shares", milli, got)
		}
	}
	for _, period := range []int64{0, 1000, 1_000_000} {
		if got, _ := (CPUQuota{Period: period}).Of(math.MaxInt64); got < math.MaxInt64/2 {
			t.Errorf("the largest quota is %d", got)
		}
	}
}

func TestPodsWithResourcesOfTheirOwnAreThrottled(t *testing.T) {
	whole, same := size("", "1Gi", "", "3Gi"), size("1", "1Gi", "1", "1Gi")
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int64
	}{
		"the pod's own":          {podOf(&whole, size("", "", "", "")), 2 << 30},
		"none of its own":        {podOf(nil, size("", "1Gi", "", "3Gi")), unthrottled},
		"request equal to limit": {podOf(&same, size("", "", "", "")), unthrottled},
	} {
		if got := highOf(c.pod, 0.5); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	p := podOf(&whole, size("", "", "", ""))
	for _, c := range []struct {
		unified bool
		factor  float64
		want    int64
	}{{true, 0.5, 2 << 30}, {false, 0.5, 0}, {true, 0, 0}} {
		tree := &Tree{unified: c.unified, opts: Options{MemoryThrottling: c.factor}}
		if got := tree.valuesOf(p, false).MemoryHigh; got != c.want {
			t.Errorf("v2 %v, factor %v: %d, want %d", c.unified, c.factor, got, c.want)
		}
	}
}

func TestThrottlingIsWrittenOnCgroupV2(t *testing.T) {
	for high, want := range map[int64]string{0: "", unthrottled: "max", 4096: "4096"} {
		if got := (Values{MemoryHigh: high}).resources(true).Unified["memory.high"]; got != want {
			t.Errorf("%d is written as %q, want %q", high, got, want)
		}
		if got := (Values{MemoryHigh: high}).resources(false).Unified; got != nil {
			t.Errorf("on v1 %d is written as %v", high, got)
		}
	}
}

func TestRequestedMemoryIsReservedOnCgroupV2(t *testing.T) {
	guaranteed, burstable := podOf(nil, size("1", "1Gi", "1", "1Gi")), podOf(nil, size("1", "2Gi", "", ""))
	guaranteed.UID, burstable.UID = "g", "b"
	const gi = 1 << 30
	tree := &Tree{unified: true, reserved: true, opts: Options{ReserveMemory: true}}
	for _, c := range []struct {
		p          *corev1.Pod
		least, low int64
	}{{guaranteed, gi, 0}, {burstable, 0, 2 * gi}, {podOf(nil, size("", "", "", "")), 0, 0}} {
		v := tree.valuesOf(c.p, false)
		if v.MemoryMin != c.least || v.MemoryLow != c.low || !v.Reserved {
			t.Errorf("%s: %+v, want %d and %d", c.p.UID, v, c.least, c.low)
		}
		tree.requests.add(tree.requestsOf(c.p), 1)
	}
	top, class := tree.above()
	if top.MemoryMin != 3*gi || top.MemoryLow != 2*gi || class.MemoryMin != 0 || class.MemoryLow != 2*gi {
		t.Errorf("above the pods: %+v and %+v", top, class)
	}
	files := top.resources(true).Unified
	if files["memory.min"] != fmt.Sprint(3*gi) || files["memory.low"] != fmt.Sprint(2*gi) {
		t.Errorf("written: %v", files)
	}
	if top.resources(false).Unified != nil {
		t.Error("written on v1")
	}
	tree.requests.add(tree.requestsOf(burstable), -1)
	if top, _ = tree.above(); top.MemoryMin != gi || top.MemoryLow != 0 {
		t.Errorf("without the Burstable pod: %+v", top)
	}
	// What an earlier configuration reserved ends with the pods' cgroups; what is above them gives it up at once.
	none := &Tree{unified: true, reserved: true}
	if v := none.valuesOf(guaranteed, false); v.Reserved {
		t.Errorf("not configured: %+v", v)
	}
	if top, class = none.above(); top.memory()["memory.min"] != "0" || class.memory()["memory.low"] != "0" {
		t.Errorf("not configured: %v and %v", top.memory(), class.memory())
	}
}

func TestResizeThrottlesNoSoonerThanBeforeOrAfter(t *testing.T) {
	for _, c := range [][3]int64{
		{100, 200, 200}, {200, 100, 200}, {0, 100, unthrottled}, {100, unthrottled, unthrottled},
		{unthrottled, 100, unthrottled}, {0, 0, 0},
	} {
		if got := widened(Values{MemoryHigh: c[0]}, Values{MemoryHigh: c[1]}).MemoryHigh; got != c[2] {
			t.Errorf("from %d to %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
