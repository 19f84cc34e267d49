package secureport

import (
	"net"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// unknownRate and unknownBurst bound the reviews of tokens that are not known, a second and at once: strangers send
	// them, and they share the node's own requests to the API server. One address has a part of them.
	unknownRate      = 10
	unknownBurst     = 50
	addressRate      = 2
	addressBurst     = 20
	maxAddresses     = 4096
	addressForgotten = time.Minute // its tokens are all there again long before
	// knownRate and knownBurst bound the reviews of known tokens: no flood of other tokens keeps a known token out.
	knownRate  = 10
	knownBurst = 50
	// knownFor is how long a token counts as known after its last yes.
	knownFor = 24 * time.Hour
	// ipv6Prefix is the length of the network that one client of IPv6 can have to itself.
	ipv6Prefix = 64
)

// budget bounds the reviews of tokens.
type budget struct {
	unknown, known *rate.Limiter
	addresses      *utilcache.LRUExpireCache // limiters by addressKey
}

func newBudget() *budget {
	return &budget{
		unknown: rate.NewLimiter(unknownRate, unknownBurst), known: rate.NewLimiter(knownRate, knownBurst),
		addresses: utilcache.NewLRUExpireCache(maxAddresses),
	}
}

// take reports whether a token may be reviewed that was known before or not, of a client with this address.
func (b *budget) take(address string, known bool) bool {
	all, key := b.unknown, addressKey{address, known}
	if known {
		all = b.known
	}
	perAddress, ok := b.addresses.Get(key)
	if !ok {
		perAddress = rate.NewLimiter(addressRate, addressBurst) // two at once may both be new: the second one counts
	}
	b.addresses.Add(key, perAddress, addressForgotten)
	return perAddress.(*rate.Limiter).Allow() && all.Allow()
}

type addressKey struct {
	address string
	known   bool
}

// addressOf returns the address of a client without its port: what it cannot easily have more of.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(ipv6Prefix)
	if err != nil {
		return host
	}
	return network.String()
}
