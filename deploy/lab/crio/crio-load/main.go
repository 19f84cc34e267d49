package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containers/image/v5/copy"
	"github.com/containers/image/v5/docker/archive"
	"github.com/containers/image/v5/signature"
	imagestorage "github.com/containers/image/v5/storage"
	"github.com/containers/storage"
	"github.com/containers/storage/pkg/reexec"
)

// timeout bounds the import of one image of a few megabytes on a busy machine.
const timeout = 2 * time.Minute

const usage = `usage: CONTAINERS_STORAGE_CONF=FILE crio-load REF ARCHIVE

puts the one image of a docker archive into the storage that FILE describes, under the full name REF`

func main() {
	// The storage starts this program again to unpack a layer.
	if reexec.Init() {
		return
	}
	if len(os.Args) != 3 || os.Getenv("CONTAINERS_STORAGE_CONF") == "" {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err := load(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "crio-load:", err)
		os.Exit(1)
	}
}

func load(ref, file string) (err error) {
	options, err := storage.DefaultStoreOptions()
	if err != nil {
		return err
	}
	store, err := storage.GetStore(options)
	if err != nil {
		return fmt.Errorf("open the storage in %s: %w", options.GraphRoot, err)
	}
	to, err := imagestorage.Transport.ParseStoreReference(store, ref)
	if err != nil {
		return fmt.Errorf("name %s: %w", ref, err)
	}
	from, err := archive.NewReference(file, nil)
	if err != nil {
		return fmt.Errorf("archive %s: %w", file, err)
	}
	trust, err := signature.NewPolicyContext(&signature.Policy{
		Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trust.Destroy()) }()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := copy.Image(ctx, trust, to, from, &copy.Options{}); err != nil {
		return fmt.Errorf("import %s from %s: %w", ref, file, err)
	}
	return nil
}
