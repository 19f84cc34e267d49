package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Full names, as the runtime stores them. lab.sh and the containerd configuration name the same two.
const (
	busyboxRef = "docker.io/library/busybox:1.36"
	pauseRef   = "registry.k8s.io/pause:3.10"
)

// defaultPath is the PATH of both images; every applet has a link in /bin.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func main() {
	busybox := flag.String("busybox", "", "a static busybox binary (Debian: package busybox-static)")
	pause := flag.String("pause", "", "a static catatonit binary (Debian: package catatonit)")
	out := flag.String("out", "", "directory for busybox.tar and pause.tar")
	flag.Parse()
	if err := run(*busybox, *pause, *out); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(busybox, pause, out string) error {
	if busybox == "" || pause == "" || out == "" {
		return errors.New("-busybox, -pause and -out are all needed")
	}
	busyboxFiles, err := busyboxTree(busybox)
	if err != nil {
		return err
	}
	pauseFiles, err := pauseTree(pause)
	if err != nil {
		return err
	}
	config := v1.Config{
		Cmd: []string{"sh"}, Env: []string{defaultPath}, Labels: standIn("the distribution's busybox"),
	}
	if err := write(filepath.Join(out, "busybox.tar"), busyboxRef, busyboxFiles, config); err != nil {
		return err
	}
	// 65535 is the user that the upstream pause image runs as; a sandbox needs no permissions. With -P catatonit does what
	// a sandbox's first process has to do: it reaps children and ends on SIGTERM.
	return write(filepath.Join(out, "pause.tar"), pauseRef, pauseFiles,
		v1.Config{Entrypoint: []string{"/pause", "-P"}, Env: []string{defaultPath}, User: "65535:65535", WorkingDir: "/",
			Labels: standIn("the distribution's catatonit")})
}

// standIn returns the labels of an image that carries the name of another one.
func standIn(content string) map[string]string {
	return map[string]string{"org.opencontainers.image.vendor": "Journalet lab",
		"org.opencontainers.image.description": "A local stand-in with " + content + ", not the image of this name."}
}

// write saves files as a one-layer image at path, under the name ref. The archive is renamed into place, so that an
// interrupted run leaves no half archive that a later `up` would import.
func write(path, ref string, files []file, config v1.Config) error {
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image name %q: %w", ref, err)
	}
	layer, err := newLayer(files)
	if err != nil {
		return fmt.Errorf("layer of %s: %w", ref, err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("append layer of %s: %w", ref, err)
	}
	img, err = mutate.ConfigFile(img, withConfig(img, config))
	if err != nil {
		return fmt.Errorf("config of %s: %w", ref, err)
	}
	half := path + ".part"
	if err := tarball.WriteToFile(half, tag, img); err != nil {
		return fmt.Errorf("write %s: %w", half, err)
	}
	if err := os.Rename(half, path); err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	fmt.Println(ref, digest)
	return nil
}

// withConfig is img's config file for this machine's platform with config in it; Created stays zero, for equal bytes.
func withConfig(img v1.Image, config v1.Config) *v1.ConfigFile {
	current, err := img.ConfigFile()
	if err != nil { // an image built in memory always has one
		panic(err)
	}
	next := current.DeepCopy()
	next.OS = "linux"
	next.Architecture = runtime.GOARCH
	next.Config = config
	return next
}
