package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// request is an entry of the API server's audit log, in the fields that are counted.
type request struct {
	AuditID string
	Verb    string
	User    struct {
		Username string
	}
	ObjectRef struct {
		Resource, Subresource string
	}
	RequestReceivedTimestamp time.Time
}

// ofNode are the resources that a node requests without any pod. All other requests count as requests of pods.
var ofNode = map[string]bool{
	"nodes": true, "leases": true, "csinodes": true, "csidrivers": true, "services": true, "runtimeclasses": true,
	"tokenreviews": true, "subjectaccessreviews": true, "certificatesigningrequests": true, "": true,
	"resourceslices": true,
}

// window is the period whose requests are counted.
type window struct{ begin, end time.Time }

func (w window) has(t time.Time) bool { return !t.Before(w.begin) && t.Before(w.end) }

// counts are requests by what they are for and their verb, such as "pods/status patch".
type counts map[string]int

func (c counts) add(q *request) {
	name := q.ObjectRef.Resource
	if q.ObjectRef.Subresource != "" {
		name += "/" + q.ObjectRef.Subresource
	}
	c[strings.TrimSpace(name)+" "+q.Verb]++
}

func (c counts) total() (all int) {
	for _, n := range c {
		all += n
	}
	return all
}

// count counts a user's requests within windows: only requests about pods, or all requests. A watch is in the log when
// it begins and when it ends, so each request counts once, in the window that it arrived in.
func count(log io.Reader, user string, onlyPods bool, windows ...window) (counts, error) {
	out, seen := counts{}, map[string]bool{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil // a line without an end is being written
		}
		if err != nil {
			return nil, err
		}
		var q request
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, fmt.Errorf("%.200q is no entry of an audit log: %w", line, err)
		}
		if q.User.Username != user || seen[q.AuditID] || onlyPods && ofNode[q.ObjectRef.Resource] {
			continue
		}
		for _, w := range windows {
			if w.has(q.RequestReceivedTimestamp) {
				seen[q.AuditID] = true
				out.add(&q)
				break
			}
		}
	}
}

// requests counts the agent's requests so far.
func (r *round) requests(onlyPods bool, windows ...window) (counts, error) {
	f, err := os.Open(r.AuditLog())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return count(f, "system:node:"+r.agent.node, onlyPods, windows...)
}
