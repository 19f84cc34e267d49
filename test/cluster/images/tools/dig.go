package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	timeout    = 5 * time.Second // dig's, for one try
	maxMessage = 64 << 10        // of DNS over TCP
)

// getent prints the addresses of names, as `getent hosts` does.
func getent(args []string) error {
	if len(args) < 2 || args[0] != "hosts" {
		return errors.New("usage: getent hosts NAMES")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true}
	for _, name := range args[1:] {
		found, err := resolver.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		for _, address := range found {
			fmt.Println(address, name)
		}
	}
	return nil
}

// types are the types of records that can be requested.
var types = map[string]dnsmessage.Type{
	"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "PTR": dnsmessage.TypePTR,
	"SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
}

// query is what the command line of dig requests.
type query struct {
	name        string
	kind        dnsmessage.Type
	network     string
	short, list bool // print data alone; go along the search list
}

func parse(args []string) (query, error) {
	q := query{kind: dnsmessage.TypeA, network: "udp"}
	for _, a := range args {
		kind, isType := types[strings.ToUpper(a)]
		switch {
		case a == "+tcp":
			q.network = "tcp"
		case a == "+short":
			q.short = true
		case a == "+search":
			q.list = true
		case a == "+notcp", a == "+noall", a == "+answer":
		case isType && q.name != "":
			q.kind = kind
		case strings.HasPrefix(a, "+"), strings.HasPrefix(a, "-"), strings.HasPrefix(a, "@"), q.name != "":
			return q, fmt.Errorf("dig: %s is nothing that the specs use", a)
		default:
			q.name = a
		}
	}
	return q, nil
}

// dig prints the answers to a query. As upstream's, it succeeds without any.
func dig(args []string) error {
	q, err := parse(args)
	if err != nil {
		return err
	}
	config, err := os.Open("/etc/resolv.conf")
	if err != nil {
		return err
	}
	defer func() { _ = config.Close() }()
	servers, search := readConfig(config)
	for _, name := range q.names(search) {
		answers, err := request(q, name, servers)
		if err != nil {
			return err
		}
		for _, a := range answers {
			fmt.Println(text(a, q.short))
		}
		if len(answers) > 0 {
			return nil
		}
	}
	return nil
}

// names returns the names to try, in order.
func (q query) names(search []string) (all []string) {
	if q.list && !strings.HasSuffix(q.name, ".") {
		for _, domain := range search {
			all = append(all, q.name+"."+strings.TrimSuffix(domain, ".")+".")
		}
	}
	return append(all, strings.TrimSuffix(q.name, ".")+".")
}

// readConfig returns the addresses of servers, with their port, and the search list.
func readConfig(r io.Reader) (servers, search []string) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		switch f := strings.Fields(lines.Text()); {
		case len(f) > 1 && f[0] == "nameserver":
			servers = append(servers, net.JoinHostPort(f[1], "53"))
		case len(f) > 1 && f[0] == "search":
			search = f[1:]
		}
	}
	return servers, search
}

// request returns the answers of the first server that answers.
func request(q query, name string, servers []string) (answers []dnsmessage.Resource, err error) {
	err = errors.New("dig: /etc/resolv.conf names no server")
	for _, server := range servers {
		if answers, err = exchange(q, name, server); err == nil {
			return answers, nil
		}
	}
	return nil, err
}

func exchange(q query, name, server string) ([]dnsmessage.Resource, error) {
	qname, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, err
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: qname, Type: q.kind, Class: dnsmessage.ClassINET}},
	}
	b, err := message.Pack()
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout(q.network, server, timeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if b, err = roundTrip(conn, b, q.network == "tcp"); err != nil {
		return nil, err
	}
	var response dnsmessage.Message
	if err := response.Unpack(b); err != nil {
		return nil, err
	}
	if response.ID != message.ID {
		return nil, errors.New("dig: a response to another query")
	}
	return response.Answers, nil
}

// roundTrip sends a message and returns the response; a stream has the length before each.
func roundTrip(conn net.Conn, message []byte, stream bool) ([]byte, error) {
	if !stream {
		if _, err := conn.Write(message); err != nil {
			return nil, err
		}
		b := make([]byte, maxMessage)
		n, err := conn.Read(b)
		return b[:n], err
	}
	length := binary.BigEndian.AppendUint16(nil, uint16(len(message)))
	if _, err := conn.Write(append(length, message...)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, length); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(length))
	_, err := io.ReadFull(conn, b)
	return b, err
}

// text returns an answer as dig prints it.
func text(r dnsmessage.Resource, short bool) string {
	var data string
	switch body := r.Body.(type) {
	case *dnsmessage.AResource:
		data = net.IP(body.A[:]).String()
	case *dnsmessage.AAAAResource:
		data = net.IP(body.AAAA[:]).String()
	case *dnsmessage.CNAMEResource:
		data = body.CNAME.String()
	case *dnsmessage.PTRResource:
		data = body.PTR.String()
	case *dnsmessage.SRVResource:
		data = fmt.Sprint(body.Priority, " ", body.Weight, " ", body.Port, " ", body.Target)
	case *dnsmessage.TXTResource:
		data = fmt.Sprintf("%q", body.TXT)
	}
	if short {
		return data
	}
	kind := strings.TrimPrefix(r.Header.Type.String(), "Type")
	return fmt.Sprintf("%s\t%d\tIN\t%s\t%s", r.Header.Name, r.Header.TTL, kind, data)
}
