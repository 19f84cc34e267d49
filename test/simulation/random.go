package simulation

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"
)

// stream returns the randomness of one concern, independent of what other concerns draw. what narrows it to one thing
// within the concern.
func stream(seed uint64, concern string, what ...string) *rand.Rand {
	h := sha256.New()
	h.Write([]byte(strconv.FormatUint(seed, 10) + "\x00" + concern))
	for _, w := range what {
		h.Write([]byte("\x00" + w))
	}
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])))
}

// between returns a duration from a to b.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

// chance returns true once in n times; never for n below 1.
func chance(r *rand.Rand, n int) bool { return n > 0 && r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }
