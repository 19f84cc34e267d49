// Package takeover finds the static pods that a kubelet ran from the agent's root directory, and keeps their UIDs (ADR
// 090). It knows pods of the API server as the kubelet had admitted them (ADR 109). What it reads is input from
// outside: names of directories, and a bounded file of each pod. It may not ask the runtime, which may be away, or
// decide what becomes of a pod. Start reading at static.go.
package takeover
