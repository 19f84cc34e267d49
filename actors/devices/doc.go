// Package devices chooses the devices of device plugins that a pod's containers get (ADR 065). It is no actor: node/0
// decides with it at admission, and the pod's actor requests with it. It knows no topology; hints of NUMA nodes would
// be one more order of the candidates in Choose.
package devices
