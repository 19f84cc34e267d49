package cri

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/pod/httpget"
)

const (
	// maxHookBodyBytes bounds how much of a response's body is read and discarded. kubelet: maxRespBodyLength, 10 KiB.
	maxHookBodyBytes = 10 << 10
	// maxHookHeaderBytes bounds a response's header.
	maxHookHeaderBytes = 1 << 20
	// hookUserAgent is the User-Agent of a hook's request: the kubelet's, which programs may check for, in the version
	// whose rules this driver follows.
	hookUserAgent = "kube-lifecycle/1.37"
)

// hookClient sends the requests of hooks. As in the kubelet, it does not verify the server: it sends no credentials,
// because the host may be any. It uses no proxy from the environment, and follows no redirect to another host.
var hookClient = &http.Client{
	Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // G402: pods have no certificate to verify
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHookHeaderBytes,
	},
	CheckRedirect: httpget.SameHost,
}

// get sends a hook's request. As in the kubelet, any response is a success; only a missing one is a failure.
func (h *hook) get(ctx context.Context, action *corev1.HTTPGetAction) error {
	req, err := h.request(ctx, action)
	if err != nil {
		return err
	}
	err = h.opts.HTTP(req)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		h.Log.Warn("an HTTPS hook got an HTTP response; sending it again by HTTP", "container", h.container.Name)
		plain := req.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		return h.opts.HTTP(plain)
	}
	return err
}

func send(req *http.Request) error {
	resp, err := hookClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxHookBodyBytes)
	return resp.Body.Close()
}

// request returns the request of an action. It looks up the pod's address only if the action names no host.
func (h *hook) request(ctx context.Context, action *corev1.HTTPGetAction) (*http.Request, error) {
	host := action.Host
	if host == "" {
		var err error
		if host, err = h.podIP(ctx); err != nil {
			return nil, err
		}
	}
	port, err := portOf(h.container, action.Port)
	if err != nil {
		return nil, err
	}
	return httpget.Request(ctx, action, host, port, hookUserAgent)
}

// portOf returns a port's number, by its name in the container if it has one.
func portOf(c *corev1.Container, port intstr.IntOrString) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("couldn't find port: %s of container %q", port.String(), c.Name)
	}
	return number, nil
}

// podIP returns the pod's address: the request's, or the sandbox's if the pod was not observed yet.
func (h *hook) podIP(ctx context.Context) (string, error) {
	if ips := h.podIPs(h.pod, h.req.GetPodIps(), nil); len(ips) > 0 {
		return ips[0], nil
	}
	list, err := retry(ctx, h.call, "ListContainers", h.opts.Timeouts.Inspect, h.rt.ListContainers,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: h.req.GetContainerId()}})
	if err != nil {
		return "", err
	}
	for _, c := range list.GetContainers() {
		ips, err := h.checkSandbox(ctx, c.GetPodSandboxId())
		if err != nil {
			return "", err
		}
		if len(ips) > 0 {
			return ips[0], nil
		}
	}
	return "", errors.New("the pod has no address")
}
