package services

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/objectcache"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

func svc(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func start(t *testing.T, server *fakeapi.Server, kept objectcache.Kept) *Services {
	t.Helper()
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: server.Start(t)}, NodeName: "n", ContentType: "application/json",
	})
	must.OK(t, err)
	s := New(c, kept, func() bool { return kept != nil }, nil)
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	return s
}

func text(env map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return strings.Join(all, "\n")
}

func TestAnnotationsOfOtherServicesKeepOutNone(t *testing.T) {
	server := fakeapi.New()
	server.Create("services", svc("ns", "db", "10.0.0.1", corev1.ServicePort{Port: 5432}))
	for i := range 270 {
		large := svc("other", fmt.Sprint("s", i), corev1.ClusterIPNone)
		large.Annotations = map[string]string{"a": strings.Repeat("x", 250<<10)}
		server.Create("services", large)
	}
	s := start(t, server, nil)
	for { // the list has 67 MiB
		env, err := s.Env(t.Context(), "ns", true, true)
		if errors.Is(err, ErrNotRead) {
			continue
		}
		must.OK(t, err)
		if env["DB_SERVICE_HOST"] != "10.0.0.1" {
			t.Errorf("got %v", env)
		}
		return
	}
}

func TestEnvHasTheAPIServerAndTheServicesOfTheNamespace(t *testing.T) {
	server := fakeapi.New()
	server.Create("services", svc("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443}))
	server.Create("services", svc("default", "other", "10.0.0.2", corev1.ServicePort{Port: 1}))
	server.Create("services", svc("ns", "my-db", "fd00::3",
		corev1.ServicePort{Port: 5432, Protocol: "TCP"}, corev1.ServicePort{Name: "m-x", Port: 53, Protocol: "UDP"}))
	server.Create("services", svc("ns", "headless", "None", corev1.ServicePort{Port: 1}))
	s := start(t, server, nil)
	api := `KUBERNETES_PORT=tcp://10.0.0.1:443
KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443
KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1
KUBERNETES_PORT_443_TCP_PORT=443
KUBERNETES_PORT_443_TCP_PROTO=tcp
KUBERNETES_SERVICE_HOST=10.0.0.1
KUBERNETES_SERVICE_PORT=443
KUBERNETES_SERVICE_PORT_HTTPS=443`
	env, err := s.Env(t.Context(), "ns", false, true)
	must.OK(t, err)
	if text(env) != api {
		t.Errorf("without links:\n%s", text(env))
	}
	env, err = s.Env(t.Context(), "ns", true, true)
	must.OK(t, err)
	want := api + `
MY_DB_PORT=tcp://[fd00::3]:5432
MY_DB_PORT_53_UDP=udp://[fd00::3]:53
MY_DB_PORT_53_UDP_ADDR=fd00::3
MY_DB_PORT_53_UDP_PORT=53
MY_DB_PORT_53_UDP_PROTO=udp
MY_DB_PORT_5432_TCP=tcp://[fd00::3]:5432
MY_DB_PORT_5432_TCP_ADDR=fd00::3
MY_DB_PORT_5432_TCP_PORT=5432
MY_DB_PORT_5432_TCP_PROTO=tcp
MY_DB_SERVICE_HOST=fd00::3
MY_DB_SERVICE_PORT=5432
MY_DB_SERVICE_PORT_M_X=53`
	if text(env) != want {
		t.Errorf("with links:\n%s", text(env))
	}
	server.Delete("services", "ns", "my-db", 0)
	for end := time.Now().Add(time.Minute); text(env) != api; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after its deletion:\n%s", text(env))
		}
		env, err = s.Env(t.Context(), "ns", true, true)
		must.OK(t, err)
	}
}

// As with a kubelet, such containers do not start: Linux starts no process with so many variables. Those of other
// namespaces do.
func TestVariablesBeyondWhatAProcessTakesAreAnError(t *testing.T) {
	server := fakeapi.New()
	server.Create("services", svc("few", "db", "10.0.0.1", corev1.ServicePort{Port: 5432}))
	many := svc("ports", "s", "10.0.0.1")
	for i := range 20_000 {
		many.Spec.Ports = append(many.Spec.Ports, corev1.ServicePort{Port: int32(i)})
	}
	server.Create("services", many)
	for i := range 3000 { // a kilobyte each
		server.Create("services", svc("many", fmt.Sprintf("s-%060d", i), "10.0.0.1",
			corev1.ServicePort{Port: 1}, corev1.ServicePort{Port: 2}))
	}
	s := start(t, server, nil)
	for _, namespace := range []string{"many", "ports"} {
		env, err := s.Env(t.Context(), namespace, true, true)
		for errors.Is(err, ErrNotRead) {
			env, err = s.Env(t.Context(), namespace, true, true)
		}
		if err == nil || !strings.Contains(err.Error(), namespace) || !strings.Contains(err.Error(), "enableServiceLinks") {
			t.Errorf("%s: %d variables, %v", namespace, len(env), err)
		}
		env, err = s.Env(t.Context(), namespace, false, true)
		if err != nil || len(env) != 0 {
			t.Errorf("%s without links: %d variables, %v", namespace, len(env), err)
		}
	}
	env, err := s.Env(t.Context(), "few", true, true)
	must.OK(t, err)
	if env["DB_SERVICE_HOST"] != "10.0.0.1" {
		t.Errorf("got %v", env)
	}
}

// lists are the kept lists, by name.
type lists map[string]string

func (l lists) SaveList(string, []byte) {}

func (l lists) LoadList(name string) ([]byte, bool) { return []byte(l[name]), l[name] != "" }

func TestListOfBeforeCountsWhileTheAPIServerIsAway(t *testing.T) {
	server := fakeapi.New()
	server.SetDown(true)
	s := start(t, server, lists{
		"services": `{"ns":{"db":{"name":"db","ip":"10.0.0.9","ports":[{"number":1,"protocol":"tcp"}]}}}`,
	})
	env, err := s.Env(t.Context(), "ns", true, true)
	must.OK(t, err)
	if env["DB_SERVICE_HOST"] != "10.0.0.9" {
		t.Errorf("got %v", env)
	}
}

func TestOnlyPodsOfTheAPIServerWaitForTheFirstList(t *testing.T) {
	server := fakeapi.New()
	server.SetDown(true)
	s := start(t, server, nil)
	if _, err := s.Env(t.Context(), "ns", true, true); !errors.Is(err, ErrNotRead) {
		t.Errorf("a pod of the API server got %v", err)
	}
	if env, err := s.Env(t.Context(), "ns", true, false); err != nil || len(env) > 0 {
		t.Errorf("a static pod got %v, %v", env, err)
	}
}
