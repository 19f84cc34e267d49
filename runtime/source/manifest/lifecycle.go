package manifest

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hookFields are the supported fields of a lifecycle hook. The API allows tcpSocket for old manifests; as in the
// kubelet, such a hook always fails.
var hookFields = []string{
	"exec.command", "httpGet.path", "httpGet.port", "httpGet.host", "httpGet.scheme", "httpGet.httpHeaders",
	"sleep.seconds", "tcpSocket.port", "tcpSocket.host",
}

// withHooks adds the fields of a container's lifecycle to other fields.
func withHooks(paths ...string) []string {
	for _, hook := range []string{"postStart", "preStop"} {
		for _, f := range hookFields {
			paths = append(paths, "spec.containers[].lifecycle."+hook+"."+f)
		}
	}
	return append(paths, "spec.containers[].lifecycle.stopSignal")
}

func defaultLifecycle(l *corev1.Lifecycle) {
	if l == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
		if h != nil {
			defaultHTTPGet(h.HTTPGet)
		}
	}
}

// lifecycle checks a container's hooks and its stop signal.
func (s *containerScope) lifecycle(c *corev1.Container, at *field.Path) {
	l := c.Lifecycle
	if l == nil {
		return
	}
	at = at.Child("lifecycle")
	var errs field.ErrorList
	if l.PostStart != nil {
		errs = append(errs, s.hook(l.PostStart, at.Child("postStart"))...)
	}
	if l.PreStop != nil {
		errs = append(errs, s.hook(l.PreStop, at.Child("preStop"))...)
	}
	if l.StopSignal != nil {
		errs = append(errs, s.stopSignal(*l.StopSignal, at.Child("stopSignal"))...)
	}
	s.report.invalid(errs)
}

// hook checks one hook: the fields that it shares with a probe's handler, and its sleep, which must not be longer than
// the pod's grace period.
func (s *containerScope) hook(h *corev1.LifecycleHandler, at *field.Path) field.ErrorList {
	others := h.Exec != nil || h.HTTPGet != nil || h.TCPSocket != nil
	if h.Sleep == nil || others {
		errs := validateHandler(&corev1.ProbeHandler{Exec: h.Exec, HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}, at)
		if h.Sleep != nil {
			errs = append(errs, field.Forbidden(at.Child("sleep"), "may not specify more than 1 handler type"))
		}
		return errs
	}
	if grace := s.spec.TerminationGracePeriodSeconds; grace != nil && (h.Sleep.Seconds < 0 || h.Sleep.Seconds > *grace) {
		return field.ErrorList{field.Invalid(at.Child("sleep"), h.Sleep.Seconds,
			fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))}
	}
	return nil
}

func (s *containerScope) stopSignal(signal corev1.Signal, at *field.Path) field.ErrorList {
	switch {
	case s.spec.OS == nil:
		return field.ErrorList{field.Forbidden(at, "may not be set for containers with empty `spec.os.name`")}
	case s.spec.OS.Name == corev1.Linux && !slices.Contains(stopSignals(), signal):
		return field.ErrorList{field.NotSupported(at, signal, stopSignals())}
	}
	return nil
}

// stopSignals are the API's stop signals for Linux, sorted.
var stopSignals = sync.OnceValue(func() []corev1.Signal {
	names := []corev1.Signal{
		"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
		"SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP",
		"SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM",
		"SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX",
	}
	for i := 1; i <= 15; i++ {
		names = append(names, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", i)))
	}
	for i := 1; i <= 14; i++ {
		names = append(names, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", i)))
	}
	slices.Sort(names)
	return names
})
