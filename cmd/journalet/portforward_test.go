package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/fakekubelet"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/terminal"
)

// echo listens on a port of this machine and sends back what it reads, and returns the port.
func echo(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// through sends data to an address and returns what comes back.
func through(t *testing.T, address string, data []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must.OK(t, err)
	defer c.Close()
	go func() {
		_, _ = c.Write(data)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, _ := io.ReadAll(c)
	return got
}

func TestPortsAreForwardedAndARefusedOneIsReported(t *testing.T) {
	first, second := echo(t), echo(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	refused := closed.Addr().(*net.TCPAddr).Port
	must.OK(t, closed.Close())
	p := aPod("default/web", "app")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: int32(first)}}
	k := fakekubelet.Serve(t, p)
	x := terminal.Run(t, journalet("port-forward", "--socket", k.Socket, "web",
		":http", fmt.Sprintf(":%d", second), fmt.Sprintf(":%d", refused)))
	address := func(host string, remote int) string {
		x.Expect("Forwarding from " + host)
		x.Expect(fmt.Sprintf(" -> %d\r\n", remote))
		m := regexp.MustCompile(regexp.QuoteMeta("Forwarding from "+host) + `:(\d+) -> ` + fmt.Sprint(remote) + "\r").
			FindStringSubmatch(x.Text())
		return host + ":" + m[1]
	}
	var addresses []string
	for _, port := range []int{first, second, refused} {
		addresses = append(addresses, address("127.0.0.1", port), address("[::1]", port))
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, a := range addresses[:4] {
		if got := through(t, a, big); !bytes.Equal(got, big) {
			t.Errorf("%s: %d bytes of %d", a, len(got), len(big))
		}
		x.Expect("Handling connection for")
	}
	for _, a := range addresses[4:] {
		if got := through(t, a, []byte("x")); len(got) > 0 {
			t.Errorf("%s: %q", a, got)
		}
		x.Expect(fmt.Sprintf("journalet: port %d: ", refused))
		x.Expect("connection refused")
	}
	if got := through(t, addresses[0], big); !bytes.Equal(got, big) { // the others stay
		t.Errorf("after a refusal: %d bytes of %d", len(got), len(big))
	}
	x.Signal(os.Interrupt)
	if code := x.End(); code != exitOK {
		t.Errorf("exit code %d\n%s", code, x.Text())
	}
	if _, err := net.Dial("tcp", addresses[0]); err == nil {
		t.Error("it still listens")
	}
}

func TestForwardingEndsWithTheAgent(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	x := terminal.Run(t, journalet("port-forward", "--socket", k.Socket, "web", ":80"))
	x.Expect("[::1]")
	k.Vanish()
	x.Expect("lost the connection to pod default/web")
	if code := x.End(); code != exitError {
		t.Errorf("exit code %d", code)
	}
}

func TestPortThatIsTakenDoesNotEndTheOthers(t *testing.T) {
	k := fakekubelet.Serve(t, aPod("default/web", "app"))
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	must.OK(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	x := terminal.Run(t, journalet("port-forward", "--socket", k.Socket, "web", "--address", "127.0.0.1",
		fmt.Sprintf("%d:80", port), ":81"))
	x.Expect("unable to listen for port 80 of the pod")
	x.Expect("address already in use")
	x.Expect("-> 81")
	x.Signal(syscall.SIGTERM)
	if code := x.End(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	x = terminal.Run(t, journalet("port-forward", "--socket", k.Socket, "web", "--address", "127.0.0.1",
		fmt.Sprintf("%d:80", port)))
	x.Expect("unable to listen on any of the ports")
	if code := x.End(); code != exitError {
		t.Errorf("exit code %d", code)
	}
}

func TestPortsAreChecked(t *testing.T) {
	p := aPod("default/web", "app")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {Name: "http", ContainerPort: 8080},
		{Name: "dns-tcp", ContainerPort: 53, Protocol: corev1.ProtocolTCP},
		{ContainerPort: 514, Protocol: corev1.ProtocolUDP},
	}
	ended := aPod("default/job", "app")
	ended.Status.Phase = corev1.PodSucceeded
	k := fakekubelet.Serve(t, p, ended)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"web", exitUsage, "arg"},
		{"web 0", exitUsage, "want a number from 1 to 65535"},
		{"web 8080:", exitUsage, "want a number"},
		{"web 80:80:80", exitNotFound, `no port named "80:80"`},
		{"web x:80", exitUsage, "want [LOCAL:]REMOTE"},
		{"web 65536", exitUsage, "want a number from 1 to 65535"},
		{"web 514", exitUsage, "only TCP"},
		{"web dns", exitUsage, "only TCP"},
		{"web nope", exitNotFound, `no port named "nope"`},
		{"web 80 --address example.com", exitUsage, "neither an IP address nor localhost"},
		{"job 80", exitError, "its phase is Succeeded"},
		{"wbe 80", exitNotFound, "not found"},
	} {
		code, _, errs := run(t.Context(), append([]string{"port-forward", "--socket", k.Socket},
			strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %q; want %d, %q", c.args, code, errs, c.code, c.want)
		}
	}
	all, err := forwardsOf(&p, []string{"http", "9:http", ":53", "7:dns-tcp"})
	must.OK(t, err)
	if got := fmt.Sprint(all); got != "[{8080 8080} {9 8080} {0 53} {7 53}]" {
		t.Error(got)
	}
}
