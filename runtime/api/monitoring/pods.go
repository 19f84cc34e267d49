package monitoring

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// podMetrics count what happens to pods, under the kubelet's names.
type podMetrics struct {
	pods, podErrors           prometheus.Counter
	userNamespaces, idErrors  prometheus.Counter
	containers, startErrors   *prometheus.CounterVec
	pulls                     *prometheus.HistogramVec
	starts, slis              prometheus.Observer
	work, volumes             *prometheus.HistogramVec
	rejections                *prometheus.CounterVec
	orphans                   prometheus.Counter
	lastRelist, cgroupVersion prometheus.Gauge
}

// Buckets in seconds, which are the kubelet's.
var (
	startBuckets = []float64{
		.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
	}
	storageBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
	pullBuckets    = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
)

func (m *Metrics) newPods() podMetrics {
	const kind = "container_type"
	return podMetrics{
		pods:      m.counter("kubelet_started_pods_total", "Creations of sandboxes, failed ones too."),
		podErrors: m.counter("kubelet_started_pods_errors_total", "Failed creations of sandboxes."),
		userNamespaces: m.counter("kubelet_started_user_namespaced_pods_total",
			"Creations of sandboxes with a user namespace of their own, failed ones too."),
		idErrors: m.counter("kubelet_started_user_namespaced_pods_errors_total",
			"Failed creations of sandboxes with a user namespace of their own."),
		containers: m.counters("kubelet_started_containers_total",
			"Starts of containers, failed ones too; the type is container, init_container or ephemeral_container.", kind),
		startErrors: m.counters("kubelet_started_containers_errors_total",
			"Failed starts of containers, with the reason for which the container waits.", kind, "code"),
		pulls: m.histograms("kubelet_image_pull_duration_seconds",
			"Duration of successful pulls by the size of the image.", pullBuckets, "image_size_in_bytes"),
		starts: m.histogram("kubelet_pod_start_duration_seconds",
			"Time from the first record of a pod until it runs.", startBuckets),
		slis: m.histogram("kubelet_pod_start_sli_duration_seconds",
			"Time from the creation of a pod of the API server until all its containers run, without pulls and without "+
				"runs of init containers; pods with other volumes than files of the API server and emptyDirs do not count.",
			startBuckets),
		work: m.histograms("kubelet_pod_worker_duration_seconds",
			"Time for which a pod had something under way: calls, pulls, its admission. It was added (create), updated or "+
				"removed (update), or something else had happened (sync); terminated: its clean-up.",
			prometheus.DefBuckets, "operation_type"),
		volumes: m.histograms("storage_operation_duration_seconds",
			"Duration of operations on volumes: volume_mount is a set-up of one volume, volume_unmount its tear-down, "+
				"unmount_device the end of its staging (block devices: map_volume, unmap_volume, unmap_device), "+
				"verify_controller_attached_volume a wait for its attachment. The status is success or fail-unknown.",
			storageBuckets, "volume_plugin", "operation_name", "status", "migrated"),
		rejections: m.counters("kubelet_admission_rejections_total", "Rejected pods by reason.", "reason"),
		orphans: m.counter("kubelet_orphaned_runtime_pods_total",
			"Pods that the runtime had, and that no record explained."),
		lastRelist:    m.gauge("kubelet_pleg_last_seen_seconds", "Unix time of the last relist."),
		cgroupVersion: m.gauge("kubelet_cgroup_version", "Version of the machine's cgroups: 1 or 2."),
	}
}

// PodStarted counts a creation of a sandbox.
func (m *Metrics) PodStarted(ownUsers, failed bool) {
	count(m.pods.pods, m.pods.podErrors, failed)
	if ownUsers {
		count(m.pods.userNamespaces, m.pods.idErrors, failed)
	}
}

func count(all, failures prometheus.Counter, failed bool) {
	all.Inc()
	if failed {
		failures.Inc()
	}
}

// ContainerStarted counts a start of a container. kind is container, init_container or ephemeral_container; code is why
// it failed, one of a fixed set, and empty if it did not.
func (m *Metrics) ContainerStarted(kind, code string) {
	m.pods.containers.WithLabelValues(kind).Inc()
	if code != "" {
		m.pods.startErrors.WithLabelValues(kind, code).Inc()
	}
}

// ImagePulled observes a successful pull of an image of so many bytes.
func (m *Metrics) ImagePulled(bytes int64, took time.Duration) {
	m.pods.pulls.WithLabelValues(sizeOf(bytes)).Observe(took.Seconds())
}

// sizeOf returns the label of an image's size, as the kubelet's.
func sizeOf(bytes int64) string {
	const mb = 1 << 20
	for _, size := range []struct {
		below int64
		label string
	}{
		{10, "0-10MB"}, {100, "10MB-100MB"}, {500, "100MB-500MB"}, {1 << 10, "500MB-1GB"}, {5 << 10, "1GB-5GB"},
		{10 << 10, "5GB-10GB"}, {20 << 10, "10GB-20GB"}, {30 << 10, "20GB-30GB"}, {40 << 10, "30GB-40GB"},
		{60 << 10, "40GB-60GB"}, {100 << 10, "60GB-100GB"},
	} {
		if bytes < size.below*mb {
			return size.label
		}
	}
	return "GT100GB"
}

// PodRan observes the time from the first record of a pod until it runs.
func (m *Metrics) PodRan(took time.Duration) { m.pods.starts.Observe(took.Seconds()) }

// PodContainersStarted observes the latency of a pod's start: without pulls and runs of init containers.
func (m *Metrics) PodContainersStarted(took time.Duration) { m.pods.slis.Observe(took.Seconds()) }

// PodWorked observes how long a pod had something under way. kind is create, update, sync or terminated.
func (m *Metrics) PodWorked(kind string, took time.Duration) {
	m.pods.work.WithLabelValues(kind).Observe(took.Seconds())
}

// StorageOperation observes an operation on a volume. plugin and operation are of fixed sets with the kubelet's names,
// but for the names of CSI drivers, which have registered. migrated: the volume is of a cloud's kind that a CSI driver
// has taken over.
func (m *Metrics) StorageOperation(plugin, operation string, migrated bool, took time.Duration, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.pods.volumes.WithLabelValues(plugin, operation, status, strconv.FormatBool(migrated)).Observe(took.Seconds())
}

// Rejected counts a pod that was not admitted.
func (m *Metrics) Rejected(reason string) {
	switch {
	case slices.Contains(knownRejections, reason):
	case strings.HasPrefix(reason, "OutOf"): // the rest is a manifest's
		reason = "OutOfExtendedResources"
	default:
		reason = "Other"
	}
	m.pods.rejections.WithLabelValues(reason).Inc()
}

// knownRejections bound the values of the label: the kubelet's values, also values that this agent has no reason for
// yet, and values that a kubelet counts as other.
var knownRejections = []string{
	"AppArmor", "Evicted", "InitContainerRestartPolicyForbidden", "InvalidNodeInfo", "NodeAffinity", "NodeName",
	"NodePorts", "NodeShutdown", "OutOfUserNamespaces", "OutOfcpu", "OutOfephemeral-storage", "OutOfmemory", "OutOfpods",
	"PodFeatureUnsupported", "PodLevelResourcesNotSupported", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
	"SMTAlignmentError", "SupplementalGroupsPolicyNotSupported", "SysctlForbidden", "TaintToleration",
	"TopologyAffinityError", "UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason",
	"VolumeAttachmentLimitExceeded",
}

// OrphanFound counts a pod that the runtime had, and that no record explained.
func (m *Metrics) OrphanFound() { m.pods.orphans.Inc() }

// CgroupVersion sets the version of the machine's cgroups.
func (m *Metrics) CgroupVersion(n int) { m.pods.cgroupVersion.Set(float64(n)) }
