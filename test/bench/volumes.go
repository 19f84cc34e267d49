package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/journalet/journalet/test/measure"
)

// volume is one of a pod, as in its manifest.
type volume map[string]any

// volumePairs is how many pods with volumes are started, each after one without.
const volumePairs = 15

// volumesOfAll is one volume of each kind that has contents, and one volume without contents.
var volumesOfAll = []volume{
	{"name": "config", "configMap": map[string]any{"name": "pb-config"}},
	{"name": "secret", "secret": map[string]any{"secretName": "pb-secret"}},
	{"name": "projected", "projected": map[string]any{"sources": []map[string]any{
		{"configMap": map[string]any{"name": "pb-config"}}, {"secret": map[string]any{"name": "pb-secret"}},
		{"downwardAPI": map[string]any{"items": []map[string]any{
			{"path": "name", "fieldRef": map[string]any{"fieldPath": "metadata.name"}},
		}}},
	}}},
	{"name": "scratch", "emptyDir": map[string]any{}},
}

// volumes starts one pod at a time, in turn without volumes and with them, and compares the times from the manifest to
// the running container. An agent that starts no pod with these volumes has no result: a kubelet takes them from an API
// server only.
func (c *client) volumes(*agent) {
	putFile("pb-config", objectOf("ConfigMap", "pb-config", "data"))
	putFile("pb-secret", objectOf("Secret", "pb-secret", "stringData"))
	var plain, with []float64
	for i := range volumePairs {
		name := fmt.Sprintf("pb-plain-%02d", i)
		plain = append(plain, c.startOne(name, manifest(name, 0))...)
		name = fmt.Sprintf("pb-volumes-%02d", i)
		with = append(with, c.startOne(name, manifestWith(name, 0, volumesOfAll))...)
		if len(with) == 0 || len(plain) == 0 {
			return
		}
	}
	for _, name := range []string{"pb-config", "pb-secret"} {
		remove(name)
	}
	out("volumes", map[string]any{
		"count": len(with), "complete": len(with) == volumePairs,
		"plain_p50_ms": r3(1000 * median(plain)), "with_p50_ms": r3(1000 * median(with)),
		"more_p50_ms": r3(1000 * (median(with) - median(plain))),
	})
}

// volumesLimit bounds the start of one pod.
const volumesLimit = 20 * time.Second

// startOne starts one pod and removes it. It returns the time of its start in seconds; nothing if it did not start.
func (c *client) startOne(pod string, manifest []byte) []float64 {
	t0 := time.Now()
	putFile(pod, manifest)
	wait := *limit
	*limit = min(wait, volumesLimit)
	xs, _ := c.collect(pod, 1, t0, nil)
	*limit = wait
	remove(pod)
	c.waitGone(pod, time.Now().Add(*limit))
	return xs
}

func remove(pod string) {
	if err := os.Remove(filepath.Join(*manifests, pod+".json")); err != nil {
		die(err)
	}
}

func objectOf(kind, name, field string) []byte {
	data, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": "default"},
		field:      map[string]any{"key": "value", "file.conf": "a = 1\nb = 2\n"}})
	return data
}

// median returns the median of values, 0 without any.
func median(xs []float64) float64 {
	m, _ := measure.Median(xs)
	return m
}
