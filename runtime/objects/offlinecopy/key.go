package offlinecopy

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/program"
)

const (
	// SystemdCreds is the value of --offline-secrets that has systemd-creds keep the key.
	SystemdCreds = "systemd-creds"
	// KeyFile is the file with the key in the directory of --offline-secrets.
	KeyFile = "journalet-offline.key"

	credential     = "journalet-offline"
	credentialFile = credential + ".cred"
	// maxCredentialBytes bounds a credential of systemd.
	maxCredentialBytes = 1 << 20
	// credentialTimeout bounds one run of systemd-creds: a TPM takes seconds.
	credentialTimeout = 30 * time.Second
	keyBytes          = 32
)

// Seal returns what seals Secrets, by the value of --offline-secrets: a directory outside of root for the key, or
// SystemdCreds. Empty: nil, which keeps no Secrets. Seal creates the key if it does not exist. dir is the directory of
// the copies.
func Seal(ctx context.Context, value, root, dir string) (cipher.AEAD, error) {
	var key []byte
	var err error
	switch value {
	case "":
		return nil, nil
	case SystemdCreds:
		key, err = systemdKey(ctx, dir)
	default:
		key, err = fileKey(value, root)
	}
	if err != nil {
		return nil, fmt.Errorf("--offline-secrets %s: %w", value, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// fileKey returns the key in a directory.
func fileKey(dir, root string) ([]byte, error) {
	if !filepath.IsAbs(dir) {
		return nil, errors.New("name an absolute path, or " + SystemdCreds)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	inside, err := within(dir, root)
	switch {
	case err != nil:
		return nil, err
	case inside:
		return nil, errors.New("the key must not be with what it seals; name a directory outside of the root directory")
	}
	path := filepath.Join(dir, KeyFile)
	key, err := bounded.ReadFile(path, keyBytes)
	if errors.Is(err, fs.ErrNotExist) {
		key = newKey()
		return key, writeFile(path, key)
	}
	if err == nil && len(key) != keyBytes {
		err = fmt.Errorf("%s is no key; remove it, and a new one is created", path)
	}
	if err != nil {
		return nil, err
	}
	return key, os.Chmod(path, fileMode)
}

// within reports whether a directory is, or is below, another one.
func within(dir, root string) (bool, error) {
	for _, p := range []*string{&dir, &root} {
		resolved, err := filepath.EvalSymlinks(*p)
		if err != nil {
			return false, err
		}
		if *p, err = filepath.Abs(resolved); err != nil {
			return false, err
		}
	}
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../"), nil
}

func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails: it ends the process instead
	return key
}

// systemdKey returns the key that systemd-creds has sealed, with the TPM where there is one. A sealed key that it
// cannot open any more is replaced: what it sealed is lost.
func systemdKey(ctx context.Context, dir string) ([]byte, error) {
	path := filepath.Join(dir, credentialFile)
	sealed, err := bounded.ReadFile(path, maxCredentialBytes)
	if err == nil {
		if key, err := run(ctx, sealed, "decrypt"); err == nil && len(key) == keyBytes {
			return key, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key := newKey()
	if sealed, err = run(ctx, key, "encrypt"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, err
	}
	return key, writeFile(path, sealed)
}

// run runs systemd-creds on data, which no argument shows.
func run(ctx context.Context, data []byte, verb string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, credentialTimeout)
	defer cancel()
	cmd := program.Command(ctx, SystemdCreds, verb, "--name="+credential, "-", "-")
	cmd.Stdin = bytes.NewReader(data)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(failure.String())
		return nil, fmt.Errorf("systemd-creds %s: %w: %s", verb, err, text[:min(len(text), 512)])
	}
	return out, nil
}
