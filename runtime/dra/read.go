package dra

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// requestTimeout bounds one request to the API server.
	requestTimeout = 10 * time.Second
	// maxClaims bounds the claims of a pod. The API has no bound; pods have a few.
	maxClaims = 128
)

// Objects are what is read of the API server. The methods return errors of apimachinery's package api/errors, or of the
// transport.
type Objects interface {
	Claim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// FromAPI returns what reads objects of an API server, one request each.
func FromAPI(c *client.Client) Objects { return apiObjects{c} }

type apiObjects struct{ client *client.Client }

// Claim reads a ResourceClaim.
func (a apiObjects) Claim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Get(ctx, a.client, client.ResourceClaims, namespace, name)
}

// Pod reads a pod.
func (a apiObjects) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Get(ctx, a.client, client.Pods, namespace, name)
}

// Read returns the claims of a pod, each once, in the order of the manifest; the claim for extended resources comes
// last, if it has a name. It is an error if a claim is not allocated and reserved for the pod.
func (c *Claims) Read(
	ctx context.Context, manifest *corev1.Pod, extended string,
) ([]*journaletv1.ResourceClaim, error) {
	if n := len(manifest.Spec.ResourceClaims); n > maxClaims {
		return nil, fmt.Errorf("the pod has %d resource claims; at most %d are taken", n, maxClaims)
	}
	pod, err := c.withStatus(ctx, manifest)
	if err != nil {
		return nil, err
	}
	var all []*journaletv1.ResourceClaim
	for i := range manifest.Spec.ResourceClaims {
		podClaim := &manifest.Spec.ResourceClaims[i]
		claim, err := c.read(ctx, pod, podClaim)
		if err != nil {
			return nil, err
		}
		if claim == nil {
			continue // the control plane has found that none is needed
		}
		claim = once(&all, claim)
		claim.PodClaims = append(claim.PodClaims, podClaim.Name)
	}
	if extended != "" {
		claim, err := c.read(ctx, pod, &corev1.PodResourceClaim{ResourceClaimName: &extended})
		if err != nil {
			return nil, err
		}
		once(&all, claim).Extended = true
	}
	return all, nil
}

// once returns the claim of a list that is this one, which it adds if it is missing.
func once(all *[]*journaletv1.ResourceClaim, claim *journaletv1.ResourceClaim) *journaletv1.ResourceClaim {
	for _, x := range *all {
		if x.GetUid() == claim.GetUid() {
			return x
		}
	}
	*all = append(*all, claim)
	return claim
}

// withStatus returns a pod with its status, if claims were created for it: their names are there.
func (c *Claims) withStatus(ctx context.Context, manifest *corev1.Pod) (*corev1.Pod, error) {
	if !slices.ContainsFunc(manifest.Spec.ResourceClaims, func(podClaim corev1.PodResourceClaim) bool {
		return podClaim.ResourceClaimName == nil
	}) {
		return manifest, nil
	}
	pod, err := c.opts.Objects.Pod(ctx, manifest.Namespace, manifest.Name)
	if err != nil {
		return nil, fmt.Errorf("read the names of the pod's ResourceClaims: %w", err)
	}
	if pod.UID != manifest.UID {
		return nil, fmt.Errorf("the API server has another pod %s/%s, with UID %s", pod.Namespace, pod.Name, pod.UID)
	}
	return pod, nil
}

// read returns one claim of a pod; nil if the pod needs none. Its texts are the kubelet's.
func (c *Claims) read(
	ctx context.Context, pod *corev1.Pod, podClaim *corev1.PodResourceClaim,
) (*journaletv1.ResourceClaim, error) {
	name, created, err := resourceclaim.Name(pod, podClaim)
	if err != nil || name == nil {
		return nil, err
	}
	claim, err := c.opts.Objects.Claim(ctx, pod.Namespace, *name)
	if err != nil {
		return nil, fmt.Errorf("fetch ResourceClaim %s: %w", *name, err)
	}
	if created {
		if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
			return nil, err
		}
	}
	switch {
	case !resourceclaim.IsReservedForPod(pod, claim, false):
		return nil, fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, *name, claim.UID)
	case claim.UID == "" || claim.Name != *name || claim.Namespace != pod.Namespace:
		return nil, errors.New("the API server has answered with another ResourceClaim than " + *name)
	case claim.Status.Allocation == nil:
		return nil, fmt.Errorf("ResourceClaim %s: not allocated", *name)
	}
	results := claim.Status.Allocation.Devices.Results
	return &journaletv1.ResourceClaim{
		Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID),
		Prepare:    driversFor(resourcev1.SkipNodeOperationNodePrepareResources, results),
		Unprepare:  driversFor(resourcev1.SkipNodeOperationNodeUnprepareResources, results),
		Allocation: digestOf(results),
	}, nil
}

// driversFor returns the drivers of allocated devices, sorted, without drivers that skip an operation for all their
// devices.
func driversFor(op resourcev1.SkipNodeOperation, results []resourcev1.DeviceRequestAllocationResult) []string {
	needs := map[string]bool{}
	for i := range results {
		skips := results[i].SkipNodeOperations
		if !slices.Contains(skips, op) && !slices.Contains(skips, resourcev1.SkipNodeOperationAll) {
			needs[results[i].Driver] = true
		}
	}
	return slices.Sorted(maps.Keys(needs))
}

// digestOf returns a digest of allocated devices: what a driver prepares differs where it does.
func digestOf(results []resourcev1.DeviceRequestAllocationResult) string {
	sum := sha256.New()
	for i := range results {
		result := &results[i]
		share := ""
		if result.ShareID != nil {
			share = string(*result.ShareID)
		}
		for _, text := range []string{result.Request, result.Driver, result.Pool, result.Device, share} {
			fmt.Fprintf(sum, "%d:%s", len(text), text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
