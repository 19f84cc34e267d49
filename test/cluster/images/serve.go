package images

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// headerTimeout bounds how long a client of the registry may take for its headers.
const headerTimeout = 10 * time.Second

// Serve serves images at an address of this machine, and points the containerd of each lab there for their registries,
// until stop is called. certs are the directories of hosts that the labs' containerds read at each pull.
func Serve(ctx context.Context, all map[string]v1.Image, at string, certs ...string) (stop func() error, err error) {
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: headerTimeout,
		Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	go func() { _ = server.Serve(l) }() // it ends when it is closed
	address := "http://" + l.Addr().String()
	hosts := map[string]bool{}
	for full, image := range all {
		tag, err := name.NewTag(full, name.StrictValidation)
		if err == nil {
			err = push(ctx, address, tag, image)
		}
		if err != nil {
			return nil, fmt.Errorf("serve %s: %w", full, err)
		}
		hosts[tag.RegistryStr()] = true
	}
	var dirs []string
	for host := range hosts {
		for _, lab := range certs {
			dirs = append(dirs, filepath.Join(lab, host))
		}
	}
	text := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", address, address)
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // configuration, no secret
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, dir := range dirs {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
		return server.Close()
	}, nil
}

// push uploads an image under its tag.
func push(ctx context.Context, address string, tag name.Tag, image v1.Image) error {
	base := address + "/v2/" + tag.RepositoryStr()
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return err
		}
		blob, err := l.Compressed()
		if err != nil {
			return err
		}
		if err := send(ctx, http.MethodPost, base+"/blobs/uploads/?digest="+digest.String(), "", blob); err != nil {
			return err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	digest, err := image.ConfigName()
	if err != nil {
		return err
	}
	err = send(ctx, http.MethodPost, base+"/blobs/uploads/?digest="+digest.String(), "", bytes.NewReader(config))
	if err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	media, err := image.MediaType()
	if err != nil {
		return err
	}
	return send(ctx, http.MethodPut, base+"/manifests/"+tag.TagStr(), string(media), bytes.NewReader(manifest))
}

func send(ctx context.Context, method, url, media string, body io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusBadRequest {
		why, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s %s: %s: %s", method, url, response.Status, strings.TrimSpace(string(why)))
	}
	return nil
}
