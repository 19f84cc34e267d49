package sim_test

import (
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/conformance"
)

const busybox = "docker.io/library/busybox:1.36"

func TestAgreesWithRealRuntimes(t *testing.T) {
	r := sim.New(sim.Options{
		Images:      []string{busybox},
		WriteMounts: true,
		Behaviour: func(c *cri.ContainerConfig) (sim.Behaviour, bool) {
			if len(c.GetCommand()) > 0 && c.GetCommand()[0] == conformance.MissingBinary {
				return sim.Behaviour{StartError: "exec: no such file or directory"}, true
			}
			return sim.Behaviour{}, false
		},
	})
	t.Cleanup(r.Close)
	conn, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conformance.Run(t, conformance.Env{
		Conn: conn, Image: busybox, HasEvents: true,
		LogDir: func(t *testing.T) string { return t.TempDir() },
	})
}
