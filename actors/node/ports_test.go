package node

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestHostPortIsTakenByOverlappingAddress(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	key := func() string {
		protocols, ips := []string{"TCP", "UDP"}, []string{"", "10.0.0.1", "fd00::1"}
		return fmt.Sprintf("%s/%s/%d", protocols[r.IntN(2)], ips[r.IntN(3)], r.IntN(3))
	}
	a := New()
	for range 5000 {
		k, uid := key(), fmt.Sprint("u", r.IntN(3))
		if r.IntN(2) == 0 {
			a.takePort(k, uid)
		} else {
			a.freePort(k, uid)
		}
		if r.IntN(50) == 0 {
			b, err := proto.Marshal(a.State())
			if err != nil {
				t.Fatal(err)
			}
			if a = New(); a.Restore(b) != nil {
				t.Fatal("the actor's own state cannot be restored")
			}
		}
		want, taken := key(), false
		protocol, ip, port := cutPort(want)
		for have := range a.state.HostPorts {
			p, i, n := cutPort(have)
			taken = taken || p == protocol && n == port && (i == ip || i == "" || ip == "")
		}
		if got := a.portTaken(want); got != taken {
			t.Fatalf("%s taken: %v, with %v in use", want, got, a.state.HostPorts)
		}
	}
}
