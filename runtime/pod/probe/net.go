package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// lingerSeconds is how long the kernel keeps a probe's closed connection (kubelet: 1 s). With the kernel's default of
// 60 s, probes every second would use up the ports.
const lingerSeconds = 1

func dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: lingerSeconds})
		})
	}}
}

// maxPort is the highest port.
const maxPort = 1<<16 - 1

// port returns a port's number, by its name in the container if it has one.
func (t target) port(p intstr.IntOrString) (int, error) {
	port := p.IntValue()
	if p.Type == intstr.String {
		port = 0
		for i := range t.container.Ports {
			if t.container.Ports[i].Name == p.StrVal {
				port = int(t.container.Ports[i].ContainerPort)
			}
		}
		if port == 0 {
			return 0, fmt.Errorf("port %q not found: give the container a port of this name", p.StrVal)
		}
	}
	if port < 1 || port > maxPort {
		return 0, fmt.Errorf("invalid port number: %d", port)
	}
	return port, nil
}

// tcpSocket succeeds if a connection can be opened.
func tcpSocket(ctx context.Context, t target, s *corev1.TCPSocketAction, timeout time.Duration) outcome {
	port, err := t.port(s.Port)
	if err != nil {
		return outcome{failure, err.Error()} // the manifest has no such port, and never will
	}
	host := s.Host
	if host == "" {
		host = t.host
	}
	d := dialer()
	d.Timeout = timeout
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return outcome{failure, err.Error()}
	}
	_ = conn.Close() // an error does not concern the server
	return outcome{success, ""}
}

// grpcCheck calls a server's gRPC health service. As in the kubelet, every error is a failure.
func grpcCheck(ctx context.Context, t target, g *corev1.GRPCAction, timeout time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addr := net.JoinHostPort(t.host, strconv.Itoa(int(g.Port)))
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithUserAgent(userAgent), grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return dialer().DialContext(ctx, "tcp", addr)
		}))
	if err != nil {
		return outcome{failure, fmt.Sprintf("error: failed to connect service at %q: %v", addr, err)}
	}
	defer func() { _ = conn.Close() }()
	if err := waitReady(ctx, conn); err != nil {
		return outcome{failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %v", addr, timeout, err)}
	}
	service := ""
	if g.Service != nil {
		service = *g.Service
	}
	resp, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return outcome{failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " +
			status.Convert(err).Message()}
	case status.Code(err) == codes.DeadlineExceeded:
		return outcome{failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)}
	case err != nil:
		return outcome{failure, fmt.Sprintf("error: health rpc probe failed: %v", err)}
	case resp.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return outcome{failure, fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus().String())}
	}
	return outcome{success, ""}
}

// waitReady waits until a connection is ready.
func waitReady(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.Shutdown {
			return errors.New("the connection was closed")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
		if state == connectivity.Idle {
			conn.Connect()
		}
	}
	return nil
}
