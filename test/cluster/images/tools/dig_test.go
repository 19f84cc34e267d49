package main

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/journalet/journalet/test/must"
)

func TestCommandLinesOfTheSpecsAreUnderstood(t *testing.T) {
	for line, want := range map[string]query{
		"+notcp +noall +answer +search dns-test-1 A": {"dns-test-1", dnsmessage.TypeA, "udp", false, true},
		"+tcp +noall +answer +search _http._tcp.a.b.svc SRV": {"_http._tcp.a.b.svc", dnsmessage.TypeSRV, "tcp", false,
			true},
		"+notcp +noall +answer +search 2.1.96.10.in-addr.arpa. PTR": {"2.1.96.10.in-addr.arpa.", dnsmessage.TypePTR, "udp",
			false, true},
		"+short a.svc.cluster.local CNAME": {"a.svc.cluster.local", dnsmessage.TypeCNAME, "udp", true, false},
	} {
		got, err := parse(strings.Fields(line))
		must.OK(t, err)
		if got != want {
			t.Errorf("dig %s is %+v, want %+v", line, got, want)
		}
	}
	for _, line := range []string{"+trace a", "@10.96.0.10 a", "a MX", "-x 10.96.0.1"} {
		if _, err := parse(strings.Fields(line)); err == nil {
			t.Errorf("dig %s is taken, and means nothing", line)
		}
	}
}

func TestSearchListIsTriedBeforeTheNameItself(t *testing.T) {
	servers, search := readConfig(strings.NewReader("search one.local two.local\nnameserver 10.96.0.10\n"))
	if !slices.Equal(servers, []string{"10.96.0.10:53"}) {
		t.Errorf("servers %q", servers)
	}
	for _, c := range []struct {
		q    query
		want []string
	}{
		{query{name: "a", list: true}, []string{"a.one.local.", "a.two.local.", "a."}},
		{query{name: "a.", list: true}, []string{"a."}},
		{query{name: "a"}, []string{"a."}},
	} {
		if got := c.q.names(search); !slices.Equal(got, c.want) {
			t.Errorf("%+v tries %q, want %q", c.q, got, c.want)
		}
	}
}

func TestAnswersOfBothTransportsArePrinted(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer func() { _ = udp.Close() }()
	go func() {
		b := make([]byte, maxMessage)
		n, from, err := udp.ReadFrom(b)
		if err == nil {
			_, _ = udp.WriteTo(answered(b[:n]), from)
		}
	}()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer func() { _ = tcp.Close() }()
	go func() {
		conn, err := tcp.Accept()
		if err != nil {
			return
		}
		length := make([]byte, 2)
		_, _ = io.ReadFull(conn, length)
		b := make([]byte, binary.BigEndian.Uint16(length))
		_, _ = io.ReadFull(conn, b)
		b = answered(b)
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	}()
	for network, server := range map[string]string{"udp": udp.LocalAddr().String(), "tcp": tcp.Addr().String()} {
		answers, err := request(query{kind: dnsmessage.TypeA, network: network}, "a.local.", []string{server})
		must.OK(t, err)
		if len(answers) != 1 {
			t.Fatalf("%s: %d answers", network, len(answers))
		}
		if got := text(answers[0], false); got != "a.local.\t30\tIN\tA\t10.96.0.1" {
			t.Errorf("%s: %q", network, got)
		}
		if got := text(answers[0], true); got != "10.96.0.1" {
			t.Errorf("%s: %q", network, got)
		}
	}
}

// answered returns a query with an answer.
func answered(b []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		return nil
	}
	m.Response = true
	m.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
			TTL: 30},
		Body: &dnsmessage.AResource{A: [4]byte{10, 96, 0, 1}},
	}}
	b, _ = m.Pack()
	return b
}
