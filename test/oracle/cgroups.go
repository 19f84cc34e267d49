package oracle

import (
	"fmt"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/kubelet"
)

// compareCgroups compares the path and the limits of a pod's cgroup.
func compareCgroups(c *testCase) {
	parsed, problems := manifest.Decode(manifestPath, []byte(c.text), manifest.Options{NodeName: nodeName})
	if len(problems) > 0 || len(parsed) != 1 {
		c.count("rejected")
		return
	}
	pod := parsed[0].Pod
	ours, theirs := cgroup.OfPod(pod, cgroup.CPUQuota{}), kubelet.CgroupOf(pod, true, resources.PeriodMicros)
	c.differs("shares", ours.Shares, theirs.Shares)
	c.differs("quota", fmt.Sprint(ours.QuotaMicros, ours.PeriodMicros), fmt.Sprint(theirs.Quota, theirs.Period))
	for _, period := range []int64{1000, 7500, 1_000_000} {
		at := kubelet.CgroupOf(pod, true, uint64(period))
		by := cgroup.OfPod(pod, cgroup.CPUQuota{Period: period})
		c.differs("quota of another period", fmt.Sprint(by.QuotaMicros, by.PeriodMicros), fmt.Sprint(at.Quota, at.Period))
	}
	c.differs("quota that is not enforced", cgroup.OfPod(pod, cgroup.CPUQuota{Off: true}).QuotaMicros,
		kubelet.CgroupOf(pod, false, resources.PeriodMicros).Quota)
	c.differs("memory", ours.MemoryBytes, theirs.Memory)
	c.count("class " + theirs.Class)
	if ours.QuotaMicros > 0 {
		c.count("with a quota")
	}
	for _, systemd := range []bool{false, true} {
		for _, root := range []string{"/", "/a/b"} {
			at, err := (cgroup.Layout{Root: root, Systemd: systemd}).Pod(pod)
			if err != nil {
				at = err.Error()
			}
			c.differs(fmt.Sprintf("path, systemd %t", systemd), at, kubelet.CgroupPath(pod, root, systemd))
		}
	}
}
