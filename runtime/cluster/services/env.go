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

// of returns what is kept of a Service; ok is false for one without a cluster IP, which has no variables.
func of(s *corev1.Service) (out service, ok bool) {
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return service{}, false
	}
	out = service{Name: s.Name, IP: s.Spec.ClusterIP}
	for _, p := range s.Spec.Ports {
		protocol := "tcp"
		if p.Protocol != "" {
			protocol = strings.ToLower(string(p.Protocol))
		}
		out.Ports = append(out.Ports, port{Name: p.Name, Number: p.Port, Protocol: protocol})
	}
	return out, true
}

// variable returns a name as a part of the name of a variable.
func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// addTo adds the variables of a service: its host and port, those of named ports, and those that the links of Docker
// had for each port.
func (s service) addTo(env map[string]string) {
	prefix := variable(s.Name)
	env[prefix+"_SERVICE_HOST"] = s.IP
	env[prefix+"_SERVICE_PORT"] = strconv.Itoa(int(s.Ports[0].Number))
	for i, p := range s.Ports {
		number := strconv.Itoa(int(p.Number))
		if p.Name != "" {
			env[prefix+"_SERVICE_PORT_"+variable(p.Name)] = number
		}
		url := p.Protocol + "://" + net.JoinHostPort(s.IP, number)
		if i == 0 {
			env[prefix+"_PORT"] = url
		}
		link := prefix + "_PORT_" + number + "_" + strings.ToUpper(p.Protocol)
		env[link] = url
		env[link+"_PROTO"] = p.Protocol
		env[link+"_PORT"] = number
		env[link+"_ADDR"] = s.IP
	}
}
