package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// headerTimeout bounds how long a probe may take for its headers.
const headerTimeout = 10 * time.Second

// registrar answers the agent. An agent that has refused the driver ends it, so that the container starts again.
type registrar struct {
	registration.UnimplementedRegistrationServer
	info    *registration.PluginInfo
	refused chan<- error
}

func main() {
	address := flag.String("csi-address", "/run/csi/socket", "socket of the driver")
	endpoint := flag.String("kubelet-registration-path", "", "the same socket as the agent reaches it")
	dir := flag.String("plugin-registration-path", "/registration", "the agent's directory of registrations")
	healthz := flag.String("http-endpoint", "", "address of /healthz; empty: none")
	timeout := flag.Duration("timeout", time.Minute, "for an answer of the driver, which may start later")
	flag.Int("v", 0, "taken for upstream's sake, and ignored")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *address, *endpoint, *dir, *healthz, *timeout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "registrar:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, endpoint, dir, healthz string, timeout time.Duration) error {
	name, err := driverName(ctx, address, timeout)
	if err != nil {
		return fmt.Errorf("ask the driver at %s for its name: %w", address, err)
	}
	failed := make(chan error, 3)
	if healthz != "" {
		server := &http.Server{Addr: healthz, ReadHeaderTimeout: headerTimeout,
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})} // 200, with nothing
		go func() { failed <- server.ListenAndServe() }()
	}
	socket := filepath.Join(dir, name+"-reg.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, &registrar{refused: failed, info: &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: name, Endpoint: endpoint, SupportedVersions: []string{"1.0.0"},
	}})
	go func() { failed <- server.Serve(l) }()
	defer server.Stop() // the socket goes with the listener
	fmt.Println("registrar: driver", name, "at", socket)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// driverName asks the driver for its name, and waits for it to listen.
func driverName(ctx context.Context, address string, timeout time.Duration) (string, error) {
	c, err := grpc.NewClient("unix:"+strings.TrimPrefix(address, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	info, err := csi.NewIdentityClient(c).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	return info.GetName(), err
}

// GetInfo describes the driver.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return r.info, nil
}

// NotifyRegistrationStatus takes how the registration has ended.
func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !status.GetPluginRegistered() {
		select {
		case r.refused <- errors.New("the agent has refused the driver: " + status.GetError()):
		default: // it ends for another reason
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}
