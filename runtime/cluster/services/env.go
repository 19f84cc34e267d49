package services

import (
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// service is what variables show of a Service.
type service struct {
	name, ip string
	ports    []port
}

type port struct {
	name     string
	number   int32
	protocol string // lower case
}

// of returns what is kept of a Service; ok is false for one without a cluster IP, which has no variables.
func of(s *corev1.Service) (out service, ok bool) {
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return service{}, false
	}
	out = service{name: s.Name, ip: s.Spec.ClusterIP}
	for _, p := range s.Spec.Ports {
		protocol := "tcp"
		if p.Protocol != "" {
			protocol = strings.ToLower(string(p.Protocol))
		}
		out.ports = append(out.ports, port{name: p.Name, number: p.Port, protocol: protocol})
	}
	return out, true
}

// variable returns a name as a part of the name of a variable.
func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// addTo adds the variables of a service: its host and port, those of named ports, and those that the links of Docker
// had for each port.
func (s service) addTo(env map[string]string) {
	prefix := variable(s.name)
	env[prefix+"_SERVICE_HOST"] = s.ip
	env[prefix+"_SERVICE_PORT"] = strconv.Itoa(int(s.ports[0].number))
	for i, p := range s.ports {
		number := strconv.Itoa(int(p.number))
		if p.name != "" {
			env[prefix+"_SERVICE_PORT_"+variable(p.name)] = number
		}
		url := p.protocol + "://" + net.JoinHostPort(s.ip, number)
		if i == 0 {
			env[prefix+"_PORT"] = url
		}
		link := prefix + "_PORT_" + number + "_" + strings.ToUpper(p.protocol)
		env[link] = url
		env[link+"_PROTO"] = p.protocol
		env[link+"_PORT"] = number
		env[link+"_ADDR"] = s.ip
	}
}
