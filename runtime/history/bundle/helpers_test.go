package bundle

import (
	"crypto/sha256"
	"encoding/hex"
)

func sumOf(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }

func sumSlice(b []byte) []byte {
	sum := sumOf(b)
	return sum[:]
}

func digestOf(b []byte) string { return "sha256:" + hex.EncodeToString(sumSlice(b)) }
