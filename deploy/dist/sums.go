package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

const sumsFile = "SHA256SUMS"

// writeSums writes the checksum of each file of a directory, as `sha256sum -c` reads it.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		sum, err := digest(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), sums.Bytes(), 0o644) //nolint:gosec // for everybody
}

func digest(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	h := sha256.New()
	_, err = io.Copy(h, in)
	return h.Sum(nil), err
}

// printSums prints what was written: name, size and checksum.
func printSums(dir string, out io.Writer) error {
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%4.1f MiB\t%s\n", name, float64(info.Size())/(1<<20), sum)
	}
	return w.Flush()
}
