// Package rotate rotates the logs of running containers, as the kubelet does: a log beyond a size is renamed, the
// runtime opens it again, older ones are compressed, and the oldest removed. It works within the directory of the
// log, held open, with the names of single entries: whatever a container plants there, nothing outside is renamed,
// written or removed.
//
// Which containers run is what was observed; while no log grows, the driver calls the runtime for nothing. It decides
// nothing of a pod, and its facts change no pod.
//
// Start reading at policy.go, which has the rules and is pure, then driver.go.
package rotate
