package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/cluster"
)

const (
	// senders is how many requests create or delete pods at once.
	senders = 10
	// graceSeconds is the time a pod has to end; its process ends at once.
	graceSeconds = 5
)

// each calls f for 0 to n-1 from several goroutines, and returns the errors.
func each(n int, f func(i int) error) error {
	errs, next := make([]error, n), make(chan int)
	var workers sync.WaitGroup
	for range min(senders, n) {
		workers.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

// namespace is where a round has its pods.
type namespace struct {
	name   string
	client *kubernetes.Clientset
	image  string
	seen   *sightings
}

// newNamespace creates a namespace, watches its pods until ctx ends, and returns when pods may be created.
func (b *bench) newNamespace(ctx context.Context, name string) (*namespace, error) {
	client, err := b.Client()
	if err != nil {
		return nil, err
	}
	n := &namespace{name: name, client: client, image: b.image, seen: newSightings()}
	object := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, object, meta.CreateOptions{}); err != nil {
		return nil, err
	}
	err = cluster.Until(ctx, func() error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", meta.GetOptions{})
		_, err2 := client.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", meta.GetOptions{})
		return errors.Join(err, err2)
	})
	if err != nil {
		return nil, err
	}
	none, err := client.CoreV1().Pods(name).List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	// The API server ends a watch that it cannot write to at once, as in a burst.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, none.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: client.CoreV1().Pods(name).Watch,
	})
	if err != nil {
		return nil, err
	}
	go n.seen.follow(w)
	return n, nil
}

// names returns the names of so many pods.
func names(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return out
}

// create creates pods that run until they are killed, each as the functions change it.
func (n *namespace) create(
	ctx context.Context, pods []string, policy core.RestartPolicy, change ...func(*core.Pod),
) error {
	return each(len(pods), func(i int) error {
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: pods[i]}, Spec: core.PodSpec{
			RestartPolicy: policy, TerminationGracePeriodSeconds: ptr.To[int64](graceSeconds),
			Containers: []core.Container{{
				Name: "main", Image: n.image, ImagePullPolicy: core.PullIfNotPresent,
				Command: []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"},
			}},
		}}
		for _, f := range change {
			f(p)
		}
		n.seen.create(p.Name, time.Now())
		_, err := n.client.CoreV1().Pods(n.name).Create(ctx, p, meta.CreateOptions{})
		return err
	})
}

// delete requests the deletion of pods, and returns when it was requested of each.
func (n *namespace) delete(ctx context.Context, pods []string) ([]time.Time, error) {
	at := make([]time.Time, len(pods))
	return at, each(len(pods), func(i int) error {
		at[i] = time.Now()
		err := n.client.CoreV1().Pods(n.name).Delete(ctx, pods[i], meta.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
