package classes

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

func TestHandlerIsThatOfTheClass(t *testing.T) {
	server := fakeapi.New()
	server.Create("runtimeclasses.node.k8s.io", &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "runsc"})
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: server.Start(t)}, NodeName: "n", ContentType: "application/json",
	})
	must.OK(t, err)
	k := New(c, nil, nil, nil)
	done, ctx := make(chan struct{}), t.Context()
	go func() {
		defer close(done)
		_ = k.Run(ctx)
	}()
	t.Cleanup(func() { <-done })

	pod := &corev1.Pod{}
	if handler, err := k.Handler(pod); err != nil || handler != "" {
		t.Errorf("a pod without a class has handler %q, %v", handler, err)
	}
	name := "sandboxed"
	pod.Spec.RuntimeClassName = &name
	if handler, err := k.Handler(pod); err != nil || handler != "runsc" {
		t.Errorf("handler %q, %v", handler, err)
	}
	name = "late"
	if _, err := k.Handler(pod); err == nil || err.Error() != `runtimeclass.node.k8s.io "late" not found` {
		t.Errorf("a missing class: %v", err)
	}
	server.Create("runtimeclasses.node.k8s.io", &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "other"})
	must.Eventually(t, time.Minute, "handler", func() (string, bool) {
		handler, err := k.Handler(pod)
		return fmt.Sprint(handler, ", ", err), err == nil && handler == "other"
	})
}
