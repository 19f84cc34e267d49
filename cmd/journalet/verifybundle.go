package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/history/bundle"
)

// verifiedBundle is what verify prints of a bundle as JSON or YAML.
type verifiedBundle struct {
	bundleInfo
	// Broken are records whose hash of the one before is wrong: the journal was so when it was exported, as each byte of
	// the bundle is as it was written. At most bus.MaxProblems are listed.
	Broken []uint64 `json:"broken,omitempty"`
}

// verifyBundle checks the bundle in a file; done is false if the path names a directory.
func (a *app) verifyBundle(ctx context.Context, path string) (done bool, err error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return err != nil, err
	}
	b, err := bundle.Open(path)
	if err != nil {
		return true, err
	}
	defer b.Close()
	err = b.Check(ctx, a.progress("checked", "bytes"))
	a.endProgress()
	if err != nil {
		return true, err
	}
	broken, err := b.Chain(ctx, bus.MaxProblems, a.progress("checked", "records"))
	a.endProgress()
	if err != nil {
		return true, err
	}
	return true, a.printVerifiedBundle(&verifiedBundle{infoOf(b.Header(), b.Index(), uint64(b.Size())), broken})
}

func (a *app) printVerifiedBundle(v *verifiedBundle) error {
	if a.output != formatTable {
		if err := printValue(a.out, a.output, v); err != nil {
			return err
		}
	} else {
		v.print(a.out)
		for _, seq := range v.Broken {
			fmt.Fprintf(a.out, "  #%d  the hash chain is broken here; it was so in the journal\n", seq)
		}
		if len(v.Broken) == 0 {
			fmt.Fprintln(a.out, "The bundle is complete and unchanged.")
		}
	}
	if len(v.Broken) > 0 {
		return errDamaged
	}
	return nil
}

// rootOf returns the root directory that a path names: the bus directory is below it.
func rootOf(path string) string {
	if info, err := os.Stat(filepath.Join(path, busDir)); err == nil && info.IsDir() {
		return path
	}
	if clean := filepath.Clean(path); filepath.Base(clean) == busDir {
		return filepath.Dir(clean)
	}
	return path
}
