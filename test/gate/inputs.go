package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// inputs returns a digest of all that a tier's result depends on: every file of the checkout that git does not ignore,
// except the files that the tier lists as apart and the page that a nightly run writes, and Go's version.
func inputs(root string, t Tier) (string, error) {
	list, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	files := strings.Split(strings.TrimRight(list, "\x00"), "\x00")
	slices.Sort(files)
	digest := sha256.New()
	fmt.Fprintln(digest, runtime.Version(), t.Name)
	for _, file := range slices.Compact(files) {
		if file == nightlyPage || slices.ContainsFunc(t.Apart, func(apart string) bool { return within(file, apart) }) {
			continue
		}
		if err := addFile(digest, root, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

func addFile(digest io.Writer, root, file string) error {
	path := filepath.Join(root, file)
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil // removed, and not committed yet
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		target, _ := os.Readlink(path) // "" for what is no link either
		fmt.Fprintf(digest, "%s -> %s\n", file, target)
		return nil
	}
	b, err := os.ReadFile(path)
	fmt.Fprintf(digest, "%s %d %x\n", file, info.Mode().Perm(), sha256.Sum256(b))
	return err
}

// A memory is what was green on this machine: the digest of its inputs of each tier. It lives in the user's cache, so
// that another clone knows it too.
type memory struct {
	path  string
	Green map[string]string
}

func remember() *memory {
	m := &memory{Green: map[string]string{}}
	cache, err := os.UserCacheDir()
	if err != nil {
		return m // nothing is skipped
	}
	m.path = filepath.Join(cache, "journalet", "green.json")
	if b, err := os.ReadFile(m.path); err == nil {
		_ = json.Unmarshal(b, &m.Green) // what cannot be read is not known to be green
	}
	return m
}

// green keeps that a tier was green with these inputs.
func (m *memory) green(tier, digest string) {
	m.Green[tier] = digest
	if m.path == "" {
		return
	}
	if b, err := json.MarshalIndent(m.Green, "", "  "); err == nil && os.MkdirAll(filepath.Dir(m.path), 0o750) == nil {
		_ = os.WriteFile(m.path, b, 0o600) // a tier that is not known to be green runs again
	}
}
