package manifest

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/journalet/journalet/runtime/cri/expand"
)

// The API server's defaults for a probe, in seconds and runs.
const (
	defaultProbeTimeout   = 1
	defaultProbePeriod    = 10
	defaultProbeSuccesses = 1
	defaultProbeFailures  = 3
)

// probeFields are the supported fields of a probe.
var probeFields = []string{
	"exec.command", "httpGet.path", "httpGet.port", "httpGet.host", "httpGet.scheme", "httpGet.httpHeaders",
	"tcpSocket.port", "tcpSocket.host", "grpc.port", "grpc.service",
	"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
	"terminationGracePeriodSeconds",
}

// withProbes adds the fields of a container's probes to other fields.
func withProbes(paths ...string) []string {
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		for _, f := range probeFields {
			paths = append(paths, "spec.containers[]."+probe+"."+f)
		}
	}
	return paths
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, defaultProbeTimeout)
	setDefault(&p.PeriodSeconds, defaultProbePeriod)
	setDefault(&p.SuccessThreshold, defaultProbeSuccesses)
	setDefault(&p.FailureThreshold, defaultProbeFailures)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setDefaultPointer(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(g *corev1.HTTPGetAction) {
	if g == nil {
		return
	}
	setDefault(&g.Path, "/")
	setDefault(&g.Scheme, corev1.URISchemeHTTP)
}

// probes checks a container's probes.
func (s *containerScope) probes(c *corev1.Container, at *field.Path) {
	s.report.invalid(validateProbe(c.LivenessProbe, at.Child("livenessProbe"), true))
	s.report.invalid(validateProbe(c.ReadinessProbe, at.Child("readinessProbe"), false))
	s.report.invalid(validateProbe(c.StartupProbe, at.Child("startupProbe"), true))
	s.report.invalid(validateProbeCommand(c.LivenessProbe, c.Env, at.Child("livenessProbe")))
	s.report.invalid(validateProbeCommand(c.ReadinessProbe, c.Env, at.Child("readinessProbe")))
	s.report.invalid(validateProbeCommand(c.StartupProbe, c.Env, at.Child("startupProbe")))
}

// validateProbeCommand refuses a command that no process can be started with once its references are expanded. Unlike
// the container's own, it depends on the manifest alone.
func validateProbeCommand(p *corev1.Probe, env []corev1.EnvVar, at *field.Path) field.ErrorList {
	if p == nil || p.Exec == nil {
		return nil
	}
	if err := expand.CheckStatic(p.Exec.Command, env); err != nil {
		return field.ErrorList{field.Invalid(at.Child("exec", "command"), field.OmitValueType{}, err.Error())}
	}
	return nil
}

// validateProbe checks one probe. restarts means that its failure restarts the container.
func validateProbe(p *corev1.Probe, at *field.Path, restarts bool) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := validateHandler(&p.ProbeHandler, at)
	for _, f := range []struct {
		name string
		n    int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if f.n < 0 {
			errs = append(errs, field.Invalid(at.Child(f.name), f.n, "must be greater than or equal to 0"))
		}
	}
	grace := at.Child("terminationGracePeriodSeconds")
	if g := p.TerminationGracePeriodSeconds; g != nil {
		switch {
		case *g <= 0:
			errs = append(errs, field.Invalid(grace, *g, "must be greater than 0"))
		case *g > maxGraceSeconds:
			errs = append(errs, field.Invalid(grace, *g, validation.InclusiveRangeError(1, maxGraceSeconds)))
		}
		if !restarts {
			errs = append(errs, field.Invalid(grace, *g, "must not be set for readinessProbes"))
		}
	}
	if restarts && p.SuccessThreshold != 1 {
		errs = append(errs, field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1"))
	}
	return errs
}

func validateHandler(h *corev1.ProbeHandler, at *field.Path) (errs field.ErrorList) {
	handlers := 0
	one := func(name string, check func(*field.Path) field.ErrorList) {
		if handlers++; handlers > 1 {
			errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 handler type"))
			return
		}
		errs = append(errs, check(at.Child(name))...)
	}
	if h.Exec != nil {
		one("exec", func(p *field.Path) field.ErrorList { return validateExec(h.Exec, p) })
	}
	if h.HTTPGet != nil {
		one("httpGet", func(p *field.Path) field.ErrorList { return validateHTTPGet(h.HTTPGet, p) })
	}
	if h.TCPSocket != nil {
		one("tcpSocket", func(p *field.Path) field.ErrorList { return validatePort(h.TCPSocket.Port, p.Child("port")) })
	}
	if h.GRPC != nil {
		one("grpc", func(p *field.Path) field.ErrorList { return portNumber(p.Child("port"), h.GRPC.Port) })
	}
	if handlers == 0 {
		errs = append(errs, field.Required(at, "must specify a handler type"))
	}
	return errs
}

func validateExec(e *corev1.ExecAction, at *field.Path) field.ErrorList {
	if len(e.Command) == 0 {
		return field.ErrorList{field.Required(at.Child("command"), "")}
	}
	return nil
}

func validateHTTPGet(g *corev1.HTTPGetAction, at *field.Path) (errs field.ErrorList) {
	if g.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	errs = append(errs, validatePort(g.Port, at.Child("port"))...)
	errs = append(errs, oneOf(g.Scheme, at.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, h := range g.HTTPHeaders {
		for _, message := range validation.IsHTTPHeaderName(h.Name) {
			errs = append(errs, field.Invalid(at.Child("httpHeaders"), h.Name, message))
		}
	}
	return errs
}

// validatePort checks a port's number or its name. As in the API server, the container need not have a port of this
// name; its probe cannot run then.
func validatePort(port intstr.IntOrString, at *field.Path) (errs field.ErrorList) {
	switch port.Type {
	case intstr.Int:
		return portNumber(at, port.IntVal)
	case intstr.String:
		for _, message := range validation.IsValidPortName(port.StrVal) {
			errs = append(errs, field.Invalid(at, port.StrVal, message))
		}
		return errs
	}
	return field.ErrorList{field.InternalError(at, errors.New("neither a number nor a name"))}
}
