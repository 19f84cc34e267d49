package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/api/stream"
)

const (
	// maxForwarded bounds the connections that are forwarded at once; others wait in the backlog of their listener.
	maxForwarded = 512
	// maxForwards bounds the ports of one command.
	maxForwards = 256
)

// forward is one pair of ports.
type forward struct{ local, remote uint16 }

func (a *app) portForwardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "port-forward POD [LOCAL:]REMOTE...",
		Short: "Forward local ports to a pod",
		Long: "Listen on local ports and forward each connection to a port of a pod, by TCP, until the command is\n" +
			"interrupted or the pod ends. REMOTE is a number, or the name of a container's port; LOCAL is the same number\n" +
			"unless given, and a free one if it is 0 or empty. A port on which nothing listens in the pod is reported with\n" +
			"each connection to it; the other ports stay.",
		Example: "  journalet port-forward web 8080:80\n" +
			"  journalet port-forward web 8080:http 9090 :5432\n" +
			"  journalet port-forward web 8443 --address 127.0.0.1,::1,10.0.0.7",
		Args:                  usageArgs(cobra.RangeArgs(2, 1+maxForwards)),
		DisableFlagsInUseLine: true,
	}
	t := a.targetFlags(cmd)
	t.waitFlag(cmd)
	addresses := cmd.Flags().StringSlice("address", []string{"localhost"},
		"addresses to listen on: IP addresses, or localhost for 127.0.0.1 and ::1, of which one is enough")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		where, err := listenAddresses(*addresses)
		if err != nil {
			return err
		}
		return t.portForward(cmd.Context(), where, args[0], args[1:])
	}
	return cmd
}

func (t *target) portForward(ctx context.Context, where []listenAddress, name string, ports []string) error {
	c := t.client()
	defer c.Close()
	p, err := t.runningPod(ctx, c, name)
	if err != nil {
		return err
	}
	forwards, err := forwardsOf(p, ports)
	if err != nil {
		return err
	}
	path, err := stream.PodPath("portForward", p, "")
	if err != nil {
		return err
	}
	conn, err := c.Ports(ctx, path)
	if err != nil {
		return t.socketError(err)
	}
	defer conn.Close()
	gone := make(chan struct{})
	f := &forwarder{app: t.a, ports: conn, slots: make(chan struct{}, maxForwarded)}
	// The runtime keeps the session of a pod that has ended: whether it has is found out when a connection fails.
	f.failed = sync.OnceFunc(func() { close(gone) })
	f.exists = func() bool { return t.exists(ctx, c, string(p.UID)) }
	defer f.close()
	for _, w := range forwards {
		if err := f.listen(ctx, where, w); err != nil {
			t.a.notice(err.Error())
		}
	}
	if len(f.listeners) == 0 {
		return fmt.Errorf("unable to listen on any of the ports: %s", strings.Join(ports, " "))
	}
	select {
	case <-ctx.Done():
		return nil // as it always ends
	case <-conn.Done():
	case <-gone:
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("lost the connection to pod %s/%s: the pod or the agent has ended", p.Namespace, p.Name)
}

// exists reports whether a pod is still there, and true if the agent does not answer.
func (t *target) exists(ctx context.Context, c *stream.Client, uid string) bool {
	pods, err := c.Pods(ctx)
	return err != nil || slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return string(p.UID) == uid && p.Status.Phase == corev1.PodRunning
	})
}

// forwardsOf returns the pairs of ports that arguments name.
func forwardsOf(p *corev1.Pod, args []string) ([]forward, error) {
	var all []forward
	for _, arg := range args {
		local, remote, two := strings.Cut(arg, ":")
		if !two {
			remote = local
		}
		r, err := remotePort(p, remote)
		if err != nil {
			return nil, err
		}
		w := forward{local: r, remote: r}
		if two {
			if local == "" {
				local = "0"
			}
			n, err := strconv.ParseUint(local, 10, 16)
			if err != nil {
				return nil, usagef("%q is no pair of ports: want [LOCAL:]REMOTE, LOCAL from 0 to 65535", arg)
			}
			w.local = uint16(n)
		}
		all = append(all, w)
	}
	return all, nil
}

// remotePort returns the number of a pod's port.
func remotePort(p *corev1.Pod, text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	number := err == nil
	if number && n == 0 || !number && strings.Trim(text, "0123456789") == "" { // a name has a letter
		return 0, usagef("the port of the pod is %q: want a number from 1 to 65535, or the name of a port", text)
	}
	var udp bool
	for _, all := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range all {
			for _, port := range all[i].Ports {
				if port.Name != text && (!number || uint64(port.ContainerPort) != n) {
					continue
				}
				if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
					return uint16(port.ContainerPort), nil
				}
				udp = true
			}
		}
	}
	switch {
	case udp:
		return 0, usagef("port %s of pod %s/%s is not TCP: only TCP can be forwarded", text, p.Namespace, p.Name)
	case !number:
		return 0, notFoundError{fmt.Errorf("pod %s/%s has no port named %q", p.Namespace, p.Name, text)}
	}
	return uint16(n), nil
}

// listenAddress is an address to listen on. Of the addresses of localhost one is enough.
type listenAddress struct {
	ip        netip.Addr
	localhost bool
}

func listenAddresses(texts []string) ([]listenAddress, error) {
	var all []listenAddress
	seen := map[netip.Addr]bool{}
	add := func(ip netip.Addr, localhost bool) {
		if !seen[ip] {
			all, seen[ip] = append(all, listenAddress{ip, localhost}), true
		}
	}
	for _, text := range texts {
		if text == "localhost" {
			add(netip.MustParseAddr("127.0.0.1"), true)
			add(netip.IPv6Loopback(), true)
			continue
		}
		ip, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			return nil, usagef("--address: %q is neither an IP address nor localhost", text)
		}
		add(ip, false)
	}
	if len(all) == 0 {
		return nil, usagef("--address: no address given")
	}
	return all, nil
}

// forwarder forwards connections.
type forwarder struct {
	*app
	ports     *stream.Ports
	slots     chan struct{}
	failed    func()      // ends the forwarding
	exists    func() bool // reports whether the pod runs
	listeners []net.Listener
	printing  sync.Mutex
	work      sync.WaitGroup
}

// listen listens for one pair of ports on all addresses, and begins to forward.
func (f *forwarder) listen(ctx context.Context, where []listenAddress, w forward) error {
	var opened []net.Listener
	var failed []error
	local := false // whether one of the addresses of localhost works
	var localFailed []error
	for _, a := range where {
		network := "tcp4"
		if a.ip.Is6() {
			network = "tcp6"
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, network, netip.AddrPortFrom(a.ip, w.local).String())
		switch {
		case err == nil:
			opened, local = append(opened, l), local || a.localhost
			w.local = uint16(l.Addr().(*net.TCPAddr).Port) // a free port is the same on all addresses
		case a.localhost:
			localFailed = append(localFailed, err)
		default:
			failed = append(failed, err)
		}
	}
	if !local {
		failed = append(failed, localFailed...)
	}
	if len(failed) > 0 {
		for _, l := range opened {
			l.Close()
		}
		return fmt.Errorf("unable to listen for port %d of the pod: %w", w.remote, errors.Join(failed...))
	}
	for _, l := range opened {
		f.listeners = append(f.listeners, l)
		f.print(fmt.Sprintf("Forwarding from %s -> %d\n", l.Addr(), w.remote))
		f.work.Go(func() { f.accept(l, w) })
	}
	return nil
}

func (f *forwarder) accept(l net.Listener, w forward) {
	for {
		f.slots <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			<-f.slots
			return // it was closed
		}
		f.work.Go(func() {
			defer func() { <-f.slots }()
			f.print(fmt.Sprintf("Handling connection for %d\n", w.local))
			if err := f.ports.Forward(conn, w.remote); err != nil {
				f.printing.Lock()
				f.notice(fmt.Sprintf("port %d: %v", w.remote, err))
				f.printing.Unlock()
				if !f.exists() {
					f.failed()
				}
			}
		})
	}
}

func (f *forwarder) print(text string) {
	f.printing.Lock()
	defer f.printing.Unlock()
	fmt.Fprint(f.out, text)
}

// close ends all listeners and connections.
func (f *forwarder) close() {
	for _, l := range f.listeners {
		l.Close()
	}
	f.ports.Close()
	f.work.Wait()
}
