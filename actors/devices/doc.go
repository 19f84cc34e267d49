// Package devices chooses the devices of device plugins that a pod's containers get (ADR 065). It is no actor: node/0
// decides with it at admission, and the pod's actor requests with it. Which NUMA nodes are best is worked out by
// actors/exclusive, together with CPUs and memory; a Chooser has the devices for that.
package devices
