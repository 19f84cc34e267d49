package client

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// magic begins every object in protobuf: the envelope runtime.Unknown follows.
var magic = []byte("k8s\x00")

// Numbers of fields: of the envelope, of every list, of every object and its metadata, and of an event of a watch.
const (
	envelopeType, envelopeRaw    = 1, 2
	listMeta, listItems          = 1, 2
	objectMeta                   = 1
	metaName, metaNamespace      = 1, 3
	metaUID, metaResourceVersion = 5, 6
	eventType, eventObject       = 1, 2
	extensionRaw                 = 1
)

// message reads a protobuf message field by field.
type message struct {
	from *bufio.Reader
	left int64
	// whole: it ends where the reader does.
	whole bool
}

// ReadByte reads a byte of the message. Its end is io.EOF.
func (m *message) ReadByte() (byte, error) {
	if m.left <= 0 {
		return 0, io.EOF
	}
	m.left--
	b, err := m.from.ReadByte()
	if errors.Is(err, io.EOF) && !m.whole {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// next returns the number and the bytes of the next field that has a length, and skips fields without a length.
func (m *message) next() (number uint64, size int64, err error) {
	for {
		tag, err := binary.ReadUvarint(m)
		if err != nil {
			return 0, 0, err
		}
		pass := int64(0)
		switch tag & 7 {
		case 0:
			_, err = binary.ReadUvarint(m)
		case 1:
			pass = 8
		case 5:
			pass = 4
		case 2:
			n, err := binary.ReadUvarint(m)
			if err == nil && n > uint64(m.left) {
				err = errors.New("the API server's answer has a field that is longer than what has it")
			}
			return tag >> 3, int64(n), err
		default:
			err = errors.New("the API server's answer has a field of another wire type")
		}
		if err == nil {
			_, err = m.take(nil, pass, 0)
		}
		if err != nil {
			return 0, 0, unexpected(err)
		}
	}
}

// take appends to into the next size bytes, or only the first prefix of more than most.
func (m *message) take(into []byte, size, most int64) ([]byte, error) {
	if size > max(most, maxPassedOver) {
		return into, fmt.Errorf("a value of the API server's answer has more than %d bytes", maxPassedOver)
	}
	keep := size
	if size > most {
		keep = min(most, prefixBytes)
	}
	at := len(into)
	into = append(into, make([]byte, keep)...)
	_, err := io.ReadFull(m.from, into[at:])
	if err == nil {
		_, err = io.CopyN(io.Discard, m.from, size-keep)
	}
	m.left -= size
	return into, unexpected(err)
}

// unexpected returns an end in the middle as the error that it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readProtobufList reads a list of a kind, item by item.
func readProtobufList(r *bufio.Reader, kind string, due any, each func(item) error) (meta metav1.ListMeta, err error) {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r, begin); err != nil || !bytes.Equal(begin, magic) {
		return meta, errors.Join(errors.New("the API server's answer is no protobuf of the API"), err)
	}
	envelope := &message{from: r, left: math.MaxInt64, whole: true}
	is, read := "", false
	for {
		number, size, err := envelope.next()
		if errors.Is(err, io.EOF) && read {
			return meta, nil
		}
		if err != nil {
			return meta, unexpected(err)
		}
		if number == envelopeRaw {
			if err := wrongList(is, kind, due); err != nil {
				return meta, err
			}
			read = true
			list := &message{from: r, left: size}
			envelope.left -= size
			if err := list.readList(&meta, each); err != nil {
				return meta, err
			}
			continue
		}
		data, err := envelope.take(nil, size, maxHeadBytes)
		if err != nil {
			return meta, err
		}
		if number == envelopeType {
			var typeMeta kruntime.TypeMeta
			if typeMeta.Unmarshal(data) != nil {
				return meta, errors.New("the API server's answer has no kind")
			}
			is = typeMeta.Kind
		}
	}
}

// wrongList returns an error if a list is one of another kind.
func wrongList(is, kind string, due any) error {
	if is != kind {
		return fmt.Errorf("the API server answered with kind %.*q where a %T is due", maxReasonBytes, is, due)
	}
	return nil
}

// readList reads the list within the envelope.
func (m *message) readList(meta *metav1.ListMeta, each func(item) error) error {
	var buffer []byte
	for {
		number, size, err := m.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		most := int64(maxHeadBytes)
		if number == listItems {
			most = asProtobuf.most()
		}
		if buffer, err = m.take(buffer[:0], size, most); err != nil {
			return err
		}
		switch {
		case number == listItems:
			err = each(item{data: buffer, size: size, as: asProtobuf})
		case number == listMeta && meta.Unmarshal(buffer) != nil:
			err = errors.New("the metadata of the API server's list cannot be decoded")
		}
		if err != nil {
			return err
		}
	}
}

// fieldOf returns a field of an encoded message that has a length, or what is there of it.
func fieldOf(data []byte, number uint64) []byte {
	m := &message{from: bufio.NewReader(bytes.NewReader(data)), left: math.MaxInt64, whole: true}
	for {
		is, size, err := m.next()
		if err != nil {
			return nil
		}
		if is == number {
			got := make([]byte, min(size, int64(len(data))))
			n, _ := io.ReadFull(m.from, got)
			return got[:n]
		}
		if _, err := m.take(nil, size, 0); err != nil {
			return nil
		}
	}
}

// protobufIdentity returns what names an object, from its first bytes.
func protobufIdentity(data []byte) identity {
	meta := fieldOf(data, objectMeta)
	text := func(number uint64) string { return string(fieldOf(meta, number)) }
	return identity{
		namespace: text(metaNamespace), name: text(metaName), uid: text(metaUID), version: text(metaResourceVersion),
	}
}

// readProtobufEvent reads the next event of a watch: its length in four bytes, and a WatchEvent, whose object is in an
// envelope.
func readProtobufEvent(r *bufio.Reader) (kind, objectKind string, in item, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", "", in, err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	frame := &message{from: r, left: size}
	data, err := frame.take(nil, size, asProtobuf.most()+prefixBytes)
	if err != nil {
		return "", "", in, err
	}
	object, _ := bytes.CutPrefix(fieldOf(fieldOf(data, eventObject), extensionRaw), magic)
	var is kruntime.TypeMeta
	if is.Unmarshal(fieldOf(object, envelopeType)) != nil {
		is.Kind = ""
	}
	in = item{data: fieldOf(object, envelopeRaw), as: asProtobuf}
	in.size = int64(len(in.data))
	if size > int64(len(data)) {
		in.size = size
	}
	return string(fieldOf(data, eventType)), is.Kind, in, nil
}
