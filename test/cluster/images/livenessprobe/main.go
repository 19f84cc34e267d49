package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// headerTimeout bounds how long a probe may take for its headers.
const headerTimeout = 10 * time.Second

func main() {
	address := flag.String("csi-address", "/run/csi/socket", "socket of the driver")
	port := flag.String("health-port", "9808", "port of /healthz")
	timeout := flag.Duration("probe-timeout", time.Second, "for an answer of the driver")
	flag.Int("v", 0, "taken for upstream's sake, and ignored")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *address, *port, *timeout)
	if ended := ctx.Err(); ended != nil {
		err = nil
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "livenessprobe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, port string, timeout time.Duration) error {
	c, err := grpc.NewClient("unix:"+strings.TrimPrefix(address, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	driver := csi.NewIdentityClient(c)
	server := &http.Server{Addr: net.JoinHostPort("", port), ReadHeaderTimeout: headerTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			ready, err := driver.Probe(ctx, &csi.ProbeRequest{})
			if err != nil || !ready.GetReady().GetValue() {
				http.Error(w, fmt.Sprintf("the driver is not ready: %v", err), http.StatusInternalServerError)
			}
		})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return server.ListenAndServe()
}
