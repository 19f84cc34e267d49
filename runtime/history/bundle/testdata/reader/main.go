package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
)

// each calls f for the fields of a message: number, varint, bytes.
func each(b []byte, f func(n protowire.Number, v uint64, b []byte)) {
	for len(b) > 0 {
		n, t, tag := protowire.ConsumeTag(b)
		all := tag + protowire.ConsumeFieldValue(n, t, b[tag:])
		v, _ := protowire.ConsumeVarint(b[tag:])
		s, _ := protowire.ConsumeBytes(b[tag:])
		f(n, v, s)
		b = b[all:]
	}
}

func main() {
	file, _ := os.ReadFile(os.Args[1])
	tail := file[len(file)-72:] // where the index is, and its sum
	offset, stored := binary.LittleEndian.Uint64(tail[8:]), binary.LittleEndian.Uint32(tail[16:])
	sum := sha256.Sum256(file[offset : offset+uint64(stored)])
	fmt.Println("the index is whole:", string(sum[:]) == string(tail[24:56]))
	zst, _ := zstd.NewReader(nil)
	all, err := zst.DecodeAll(file, nil) // one message, Bundle
	each(all, func(n protowire.Number, _ uint64, item []byte) {
		if n == 3 { // records
			var seq uint64
			each(item, func(n protowire.Number, v uint64, _ []byte) {
				if n == 1 {
					seq = v
				}
			})
			fmt.Printf("record %d: %d bytes, SHA-256 %x\n", seq, len(item), sha256.Sum256(item))
		}
	})
	fmt.Println("error:", err)
}
