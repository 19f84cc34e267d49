package services

import (
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// service is what variables show of a Service.
type service struct {
	Name  string `json:"name"`
	IP    string `json:"ip"`
	Ports []port `json:"ports"`
}

type port struct {
	Name   string `json:"name,omitempty"`
	Number int32  `json:"number"`
	// Protocol is in lower case.
	Protocol string `json:"protocol"`
}

// serviceOf returns what is kept of a Service; ok is false for one without a cluster IP, which has no variables.
func serviceOf(s *corev1.Service) (out service, ok bool) {
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return service{}, false
	}
	out = service{Name: s.Name, IP: s.Spec.ClusterIP}
	out.Ports = make([]port, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports, port{Name: p.Name, Number: p.Port, Protocol: lower(p.Protocol)})
	}
	return out, true
}

// lower returns a protocol in lower case; the protocols of the API take no memory.
func lower(p corev1.Protocol) string {
	switch p {
	case corev1.ProtocolTCP, "":
		return "tcp"
	case corev1.ProtocolUDP:
		return "udp"
	case corev1.ProtocolSCTP:
		return "sctp"
	}
	return strings.ToLower(string(p))
}

// portBytes is what a port takes besides its name.
const portBytes = 40

// bytes is what a service takes besides its name.
func (s service) bytes() int {
	n := len(s.IP) + portBytes*len(s.Ports)
	for _, p := range s.Ports {
		n += len(p.Name)
	}
	return n
}

// variable returns a name as a part of the name of a variable.
func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// variables are the variables of services, within the bytes that are left.
type variables struct {
	all  map[string]string
	left int
}

// set sets a variable, and reports whether there is room for it.
func (v *variables) set(name, value string) bool {
	if old, has := v.all[name]; has {
		v.left += len(name) + len("=") + len(old)
	}
	v.left -= len(name) + len("=") + len(value)
	if v.left < 0 {
		return false
	}
	v.all[name] = value
	return true
}

// addTo adds the variables of a service: its host and port, its named ports, and what Docker links had for each port.
// It reports whether there is room for the variables.
func (s service) addTo(env *variables) bool {
	prefix := variable(s.Name)
	ok := env.set(prefix+"_SERVICE_HOST", s.IP) &&
		env.set(prefix+"_SERVICE_PORT", strconv.Itoa(int(s.Ports[0].Number)))
	for i, p := range s.Ports {
		number := strconv.Itoa(int(p.Number))
		url := p.Protocol + "://" + net.JoinHostPort(s.IP, number)
		link := prefix + "_PORT_" + number + "_" + strings.ToUpper(p.Protocol)
		ok = ok && (p.Name == "" || env.set(prefix+"_SERVICE_PORT_"+variable(p.Name), number)) &&
			(i > 0 || env.set(prefix+"_PORT", url)) &&
			env.set(link, url) && env.set(link+"_PROTO", p.Protocol) && env.set(link+"_PORT", number) &&
			env.set(link+"_ADDR", s.IP)
		if !ok {
			return false
		}
	}
	return ok
}
