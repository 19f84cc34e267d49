package config

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/runtime/program"
)

const (
	// idsUnit divides every range of ids of a pod: images and volumes use the ids up to 65535.
	idsUnit = 65536
	// idsUser is the user whose subordinate ids are divided among pods, as by the kubelet.
	idsUser = "kubelet"
	// idsTimeout bounds getsubids, which may ask a server.
	idsTimeout = 10 * time.Second
)

// IDRange are the ids on the node that pods with user namespaces of their own share.
type IDRange struct {
	// First is a multiple of IDsPerPod, and not 0.
	First, IDsPerPod uint32
	// Pods is the number of pods that there are ids for.
	Pods uint32
}

// subordinate prints the subordinate ids of idsUser, its user ids or its group ids. It returns "" where the machine has
// no such user, or no getsubids.
type subordinate func(groups bool) (string, error)

// getsubids is the machine's subordinate.
func getsubids(groups bool) (string, error) {
	if _, err := user.Lookup(idsUser); err != nil {
		var unknown user.UnknownUserError
		if errors.As(err, &unknown) {
			return "", nil
		}
		return "", err
	}
	const tool = "getsubids"
	args := []string{idsUser}
	if groups {
		args = []string{"-g", idsUser}
	}
	ctx, stop := context.WithTimeout(context.Background(), idsTimeout)
	defer stop()
	cmd := program.Command(ctx, tool, args...)
	out, err := cmd.Output()
	if errors.Is(err, program.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return string(out), nil
}

// userNamespaces returns the ids for pods, by the kubelet's rules.
func (c *Config) userNamespaces(ids subordinate) (IDRange, error) {
	out := IDRange{IDsPerPod: uint32(c.UserNamespaceIDs)}
	first, length := uint64(out.IDsPerPod), uint64(math.MaxUint32)+1-uint64(out.IDsPerPod)
	uids, err := ids(false)
	if err != nil {
		return out, fmt.Errorf("find the ids of user namespaces: %w", err)
	}
	if uids != "" {
		gids, err := ids(true)
		if err != nil {
			return out, fmt.Errorf("find the ids of user namespaces: %w", err)
		}
		if gids != uids {
			return out, fmt.Errorf("mismatched subuids and subgids for user %q; give it the same range in /etc/subuid and "+
				"/etc/subgid", idsUser)
		}
		if first, length, err = parseSubordinate(uids); err != nil {
			return out, err
		}
	}
	bad := func(what string) error {
		return fmt.Errorf("user namespaces: the %d ids from %d on in /etc/subuid of user %q %s", length, first, idsUser, what)
	}
	each := uint64(out.IDsPerPod)
	switch {
	case first%each != 0 || first == 0:
		return out, bad(fmt.Sprintf("must begin at a multiple of %d, and not at 0", each))
	case length%each != 0:
		return out, bad(fmt.Sprintf("must be a multiple of %d", each))
	case first+length > math.MaxUint32+1:
		return out, bad(fmt.Sprintf("end beyond the largest id, %d: the last ones would be the node's own",
			uint32(math.MaxUint32)))
	case length/each < uint64(max(0, c.MaxPods)):
		return out, bad(fmt.Sprintf("are not enough for maxPods, %d pods with %d ids each", c.MaxPods, each))
	}
	out.First, out.Pods = uint32(first), uint32(length/each)
	return out, nil
}

// parseSubordinate reads one line of getsubids: "0: kubelet 65536 7208960".
func parseSubordinate(text string) (first, length uint64, err error) {
	fields := strings.Fields(text)
	if strings.Count(strings.TrimSpace(text), "\n") > 0 || len(fields) != 4 {
		return 0, 0, fmt.Errorf("user namespaces: user %q must have one range in /etc/subuid, found %q", idsUser, text)
	}
	first, err = strconv.ParseUint(fields[2], 10, 32)
	if err == nil {
		length, err = strconv.ParseUint(fields[3], 10, 32)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("user namespaces: the range of user %q in /etc/subuid: %w", idsUser, err)
	}
	return first, length, nil
}

// validateUserNamespaces checks userNamespaces.idsPerPod.
func (c *Config) validateUserNamespaces() []error {
	if n := c.UserNamespaceIDs; n < idsUnit || n > math.MaxUint32 || n%idsUnit != 0 {
		return []error{fmt.Errorf("userNamespaces.idsPerPod: found %d, want a multiple of %d up to %d", n, idsUnit,
			math.MaxUint32/idsUnit*idsUnit)}
	}
	return nil
}
