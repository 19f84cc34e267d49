package main

import (
	"strings"
	"testing"
	"time"
)

func TestEventsOfOneRecordAreGrouped(t *testing.T) {
	records, err := parseRecords([]byte(`{"seq":4,"time":"2026-01-01T10:00:00Z","event":"manifests_read"}
{"seq":5,"time":"2026-01-01T10:00:01.5Z","event":"admission_requested","data":{"uid":"u"}}
{"seq":5,"time":"2026-01-01T10:00:01.5Z","event":"pod_status_changed"}
{"seq":6,"time":"2026-01-01T10:00:02Z","event":"admission_decided"}
`), time.Date(2026, 1, 1, 10, 0, 1, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 || records[0].seq != 5 || records[1].seq != 6 ||
		strings.Join(records[0].events, " ") != "admission_requested pod_status_changed" {
		t.Errorf("records %+v", records)
	}
	if records[0].time.Nanosecond() != 5e8 {
		t.Errorf("time %v", records[0].time)
	}
	if _, err := parseRecords([]byte("no agent can be reached\n"), time.Time{}); err == nil {
		t.Error("a line that is not an event passes")
	}
}
