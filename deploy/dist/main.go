package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// architectures are what there are binaries and packages for, as Go names them.
var architectures = []string{"amd64", "arm64"}

// Bounds, so that nobody notices a year later that the agent has doubled.
const (
	maxBinary  = 90 << 20 // 60 MiB in November 2026
	maxPackage = 25 << 20 // 21 MiB in November 2026
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	out := flag.String("out", "dist", "directory for the files; those of another build are removed")
	describe := flag.String("version", "", "version, as of git describe --tags --always --dirty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, *out, *describe); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1) //nolint:forbidigo // a program
	}
}

// A release is what is built, and of what.
type release struct {
	root    string // of the repository
	out     string
	version string    // as `journalet version` prints it
	number  string    // the same, as packages sort it
	date    time.Time // of the commit: the only time in any file
}

func run(ctx context.Context, root, out, describe string) error {
	r := release{version: describe}
	var err error
	if r.root, err = filepath.Abs(root); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if r.date, err = commitDate(ctx, r.root); err != nil {
		return err
	}
	if r.number, err = packageVersion(describe, r.date); err != nil {
		return err
	}
	if err := prepare(r.out); err != nil {
		return err
	}
	if err := r.build(ctx); err != nil {
		return err
	}
	return printSums(r.out, os.Stdout)
}

// prepare creates a directory, or empties a directory that has files of another build. If the directory has anything
// else, prepare removes nothing: the name may be a mistake.
func prepare(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() != sumsFile && !strings.HasPrefix(e.Name(), "journalet") {
			return fmt.Errorf("%s holds %s, which is of no build: name another directory with -out", dir, e.Name())
		}
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755) //nolint:gosec // for everybody
}

// build writes all files of a release.
func (r release) build(ctx context.Context) error {
	for _, arch := range architectures {
		if err := r.compile(ctx, arch); err != nil {
			return err
		}
		if err := bounded(r.binary(arch), maxBinary); err != nil {
			return err
		}
	}
	texts, err := r.readTexts(ctx)
	if err != nil {
		return err
	}
	for _, arch := range architectures {
		if err := r.writePackages(arch, texts); err != nil {
			return err
		}
		if err := r.writeSBOM(arch, texts.licences); err != nil {
			return err
		}
	}
	if err := r.writeImage(); err != nil {
		return err
	}
	return writeSums(r.out)
}

// commitDate returns SOURCE_DATE_EPOCH, or else the date of the commit that is checked out.
func commitDate(ctx context.Context, root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		cmd := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("read the date of the commit: %w; set SOURCE_DATE_EPOCH where there is no git", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is no number of seconds: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// bounded returns an error for a file that is larger than it may be.
func bounded(path string, limit int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > limit {
		return fmt.Errorf("%s has %d MiB, more than the %d MiB that deploy/dist/main.go permits: find what has grown, "+
			"or raise the bound", info.Name(), info.Size()>>20, limit>>20)
	}
	return nil
}
