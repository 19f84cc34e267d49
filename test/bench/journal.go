package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// journalSize is the used part of -size's output.
type journalSize struct {
	Journal struct {
		Count, Bytes int64
	} `json:"journal"`
	Disk int64 `json:"journalDisk"`
}

func sizeNow() (s journalSize, err error) {
	words := strings.Fields(*size)
	b, err := exec.Command(words[0], words[1:]...).Output() //nolint:gosec // the caller of the bench gives the command
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		err = fmt.Errorf("bench: -size %q: %w", *size, err)
	}
	return s, err
}

// A journal that has not grown for quiet counts as complete. journalLimit bounds the wait for that.
const (
	quiet        = 2 * time.Second
	journalLimit = 60 * time.Second
)

// sizeAtRest waits until the journal has not grown for a while.
func sizeAtRest() (journalSize, error) {
	last, err := sizeNow()
	for since, end := time.Now(), time.Now().Add(journalLimit); err == nil && time.Since(since) < quiet; {
		if time.Now().After(end) {
			return last, fmt.Errorf("bench: the journal still grows after %v", journalLimit)
		}
		time.Sleep(100 * time.Millisecond)
		var now journalSize
		if now, err = sizeNow(); now != last {
			last, since = now, time.Now()
		}
	}
	return last, err
}

// journal measures the journal of one pod that is created, runs, is restarted once and deleted.
func (c *client) journal(*agent) {
	if *size == "" {
		return
	}
	const pod = "pb-journal"
	before, err := sizeAtRest()
	if err != nil {
		log.Print(err)
		return
	}
	put(pod, 0)
	_, ok := c.collect(pod, 1, time.Now(), nil)
	for _, k := range c.running(pod) {
		_, err := call(c.rt.StopContainer, &cri.StopContainerRequest{ContainerId: k.Id, Timeout: 0})
		if err != nil {
			log.Print(err)
		}
		_, again := c.collect(pod, 1, time.Now(), func(_ string, n *cri.Container) bool { return n.Id != k.Id })
		ok = ok && again
	}
	if _, err := sizeAtRest(); err != nil { // the restart's last observation
		log.Print(err)
	}
	if err := os.Remove(filepath.Join(*manifests, pod+".json")); err != nil {
		log.Print(err)
	}
	ok = c.waitGone(pod, time.Now().Add(*limit)) && ok
	after, err := sizeAtRest()
	if err != nil {
		log.Print(err)
		return
	}
	out("journal_per_pod", map[string]any{
		"encoded_bytes": after.Journal.Bytes - before.Journal.Bytes, "disk_bytes": after.Disk - before.Disk,
		"records": after.Journal.Count - before.Journal.Count, "complete": ok,
	})
}
