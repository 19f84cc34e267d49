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
	// maxHookBodyBytes bounds what of an answer's body is read, and thrown away. kubelet: maxRespBodyLength, 10 KiB.
	maxHookBodyBytes = 10 << 10
	// maxHookHeaderBytes bounds an answer's header.
	maxHookHeaderBytes = 1 << 20
	// hookUserAgent is what a hook's request says it is from: the kubelet's name for it, which programs may look for, in the
	// version whose rules are followed here.
	hookUserAgent = "kube-lifecycle/1.37"
)

// hookClient makes the requests of hooks. It carries no credential, for the host may be anybody's, and so need not verify
// to whom it talks, as in the kubelet; environment proxies are not for pods. Redirects to another host are not followed.
var hookClient = &http.Client{
	Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // G402: nobody has a certificate to verify
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHookHeaderBytes,
	},
	CheckRedirect: httpget.SameHost,
}

// get makes a hook's request. Any answer is good: as in the kubelet only one that does not come is a failure.
func (h *hook) get(ctx context.Context, action *corev1.HTTPGetAction) error {
	req, err := h.request(ctx, action)
	if err != nil {
		return err
	}
	err = ask(req)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		h.log.Warn("a hook by HTTPS was answered by HTTP, and asked again so", "container", h.container.Name)
		plain := req.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		return ask(plain)
	}
	return err
}

func ask(req *http.Request) error {
	resp, err := hookClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxHookBodyBytes)
	return resp.Body.Close()
}

// request makes the request of an action; the pod is asked for its address only where the action names no host.
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

// portOf is a port's number, looked up among the container's where it is given by name.
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

// podIP is the pod's address: what was asked for, or what the runtime says of the sandbox of a container whose pod was not
// observed yet.
func (h *hook) podIP(ctx context.Context) (string, error) {
	if ips := h.podIPs(h.pod, h.req.GetPodIps(), nil); len(ips) > 0 {
		return ips[0], nil
	}
	list, err := settle(ctx, h.call, "ListContainers", h.opts.Timeouts.Look, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return h.rt.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: h.req.GetContainerId()}})
	})
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
