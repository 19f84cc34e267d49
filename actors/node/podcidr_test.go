package node

import (
	"strings"
	"testing"
)

func TestOnlyCIDRsOfTheFamiliesAreAPodCIDR(t *testing.T) {
	for _, c := range []struct {
		cidrs      []string
		want, fail string
	}{
		{nil, "", ""},
		{[]string{"10.1.0.0/24"}, "10.1.0.0/24", ""},
		{[]string{"fd00:1::/64", "10.1.0.0/24"}, "fd00:1::/64,10.1.0.0/24", ""},
		{[]string{"10.1.0.0/24", "10.2.0.0/24"}, "", "two CIDRs of one family"},
		{[]string{"10.1.0.0/24", "fd00::/64", "fd01::/64"}, "", "3 CIDRs"},
		{[]string{"10.1.0.0"}, "", `"10.1.0.0" is no CIDR`},
		{[]string{""}, "", "is no CIDR"},
		{[]string{"10.1.0.0/33"}, "", "is no CIDR"},
		{[]string{"10.1.0.0/24,10.2.0.0/24"}, "", "is no CIDR"},
		{[]string{"10.1.0.0/24\n"}, "", `\n" is no CIDR`},
		{[]string{"{{.Name}}"}, "", "is no CIDR"},
		{[]string{strings.Repeat("1", 1<<20)}, "", "1048576 bytes"},
	} {
		got, err := PodCIDR(c.cidrs)
		switch {
		case got != c.want:
			t.Errorf("%.80q: %q, want %q", c.cidrs, got, c.want)
		case (err == nil) != (c.fail == ""), err != nil && !strings.Contains(err.Error(), c.fail):
			t.Errorf("%.80q: %v, want %q", c.cidrs, err, c.fail)
		}
	}
}
