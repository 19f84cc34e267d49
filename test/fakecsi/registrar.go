package fakecsi

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/journalet/journalet/test/must"
)

// registrar registers a driver, as node-driver-registrar does.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
}

// Register has an agent with a root directory find the driver that serves at an endpoint, until the test ends or what
// it returns is called. as names its socket of registration: a driver may have several.
func Register(t testing.TB, root, as, name, endpoint string) (leave func()) {
	t.Helper()
	l, err := listen(registrySocket(root, as))
	must.OK(t, err)
	s := grpc.NewServer()
	registration.RegisterRegistrationServer(s, &registrar{name: name, endpoint: endpoint})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return s.Stop // the socket goes with the listener
}

func registrySocket(root, as string) string {
	return filepath.Join(root, "plugins_registry", as+"-reg.sock")
}

// listen listens on a socket and replaces a socket that an earlier process has left.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// GetInfo describes the driver.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus takes how the registration has ended. The agent logs it and tries again.
func (r *registrar) NotifyRegistrationStatus(
	context.Context, *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}
