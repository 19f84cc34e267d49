package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
)

// Modes of what the OrCreate types create. kubelet: the same.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// Check returns an error unless the path of a hostPath volume has what its type says. It creates nothing: what an
// OrCreate type would create has to be there. Without a type nothing is checked.
func Check(path string, kind corev1.HostPathType) error {
	if kind == corev1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return typeError(path, kind, fs.ErrNotExist)
	case err != nil:
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	return checkType(info, path, kind)
}

// SetUp checks the path of a hostPath volume, and creates it for the OrCreate types. The path is the administrator's,
// so links are followed. Errors are worded as the kubelet's.
func SetUp(source *corev1.HostPathVolumeSource) error {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	err := Check(source.Path, kind)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch kind {
	case corev1.HostPathDirectoryOrCreate:
		return createHostDir(source.Path)
	case corev1.HostPathFileOrCreate:
		return createHostFile(source.Path)
	}
	return err
}

// IsBlockDevice reports whether a mode is a block device's.
func IsBlockDevice(mode fs.FileMode) bool {
	return mode&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice
}

func checkType(info fs.FileInfo, path string, kind corev1.HostPathType) error {
	mode := info.Mode()
	ok := false
	switch kind {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		ok = mode.IsDir()
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		ok = mode.IsRegular()
	case corev1.HostPathSocket:
		ok = mode&fs.ModeSocket != 0
	case corev1.HostPathCharDev:
		ok = mode&fs.ModeCharDevice != 0
	case corev1.HostPathBlockDev:
		ok = IsBlockDevice(mode)
	default:
		return fmt.Errorf("%s is an invalid volume type", kind)
	}
	if !ok {
		return typeError(path, kind, nil)
	}
	return nil
}

func typeError(path string, kind corev1.HostPathType, cause error) error {
	what := map[corev1.HostPathType]string{
		corev1.HostPathDirectory:         "a directory",
		corev1.HostPathDirectoryOrCreate: "a directory",
		corev1.HostPathFile:              "a file",
		corev1.HostPathFileOrCreate:      "a file",
		corev1.HostPathSocket:            "a socket file",
		corev1.HostPathCharDev:           "a character device",
		corev1.HostPathBlockDev:          "a block device",
	}[kind]
	if cause != nil {
		return fmt.Errorf("hostPath type check failed: %s is not %s: %w", path, what, cause)
	}
	return fmt.Errorf("hostPath type check failed: %s is not %s", path, what)
}

func createHostDir(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("hostPath type check failed: create the directory: %w", err)
	}
	return nil
}

// createHostFile does not create parent directories, as the type's documentation says. What is there by now may be a
// FIFO, which an open would wait for: it is not opened, and checked again by the next attempt.
func createHostFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("hostPath type check failed: create the file: %w", err)
	}
	return f.Close()
}
