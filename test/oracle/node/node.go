package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// Options are the node and its configuration, the same for both sides.
type Options struct {
	NodeName      string
	NodeLabels    map[string]string
	Allocatable   v1.ResourceList
	HostIPs       []string
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    string
	// RootDir and PodLogDir are directories of this test.
	RootDir, PodLogDir string
	SeccompDefault     bool
	// AllowedUnsafeSysctls are allowed besides the safe ones.
	AllowedUnsafeSysctls []string
	CgroupV2             bool
	// HugePages are the machine's sizes of huge pages. Swap: the node's cgroups can limit swap.
	HugePages      []string
	Swap           bool
	MemoryCapacity int64
	// MaxBackOff is the longest container back-off; zero: the default, 300 s.
	MaxBackOff time.Duration
	// Objects are what pods refer to; nil: nothing.
	Objects *Objects
	Clock   clock.Clock
}

// UserNamespace is the ids that both sides give the pod of a case, if it has a user namespace of its own.
const (
	UserNamespaceHostID = 3 << 16
	UserNamespaceLength = 1 << 16
)
