package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
)

var storeRows = []row{
	{"journal verify of the files", "3 s", verifyFiles},
	{"reading all records of the store", "1 s of CPU", readStore},
}

// verifyFiles measures a check of all records in the files, as `journal verify` does without an agent.
func verifyFiles(ctx context.Context, in input) (string, bool, error) {
	s, err := bus.OpenStored(filepath.Join(in.root, open.BusDir))
	if err != nil {
		return "", false, err
	}
	var r bus.VerifyReport
	before := cpu()
	took, err := timed(func() (err error) {
		r, err = s.Verify(ctx, nil)
		return err
	})
	if err != nil {
		return "", false, err
	}
	if !r.OK() {
		return "", false, fmt.Errorf("record %d: %s", r.Problems[0].Seq, r.Problems[0].Message)
	}
	return fmt.Sprintf("%s for %d records (%s of CPU)", took.Round(time.Millisecond), r.Records,
		(cpu() - before).Round(time.Millisecond)), took <= 3*time.Second, nil
}

// readStore measures what history reads through: the records' bytes with the store's checksums.
func readStore(ctx context.Context, in input) (string, bool, error) {
	bytes, records := 0, 0
	before := cpu()
	took, err := timed(func() error {
		return in.store.Read(ctx, 0, 0, func(e history.Entry) error {
			bytes += len(e.Bytes)
			records++
			return nil
		})
	})
	used := cpu() - before
	return fmt.Sprintf("%s for %d records, %d MB (%s of CPU)", took.Round(time.Millisecond), records, bytes/1e6,
		used.Round(time.Millisecond)), used <= time.Second, err
}
