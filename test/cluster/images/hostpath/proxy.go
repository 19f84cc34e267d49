package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// proxy pairs each connection that outer accepts with a connection that inner accepts, and copies both ways, until ctx
// ends. The tests keep some connections waiting at inner: the kernel holds them until they are wanted.
func proxy(ctx context.Context, outer, inner net.Listener) error {
	context.AfterFunc(ctx, func() {
		_ = outer.Close()
		_ = inner.Close()
	})
	for {
		client, err := outer.Accept()
		if err != nil {
			return err
		}
		server, err := inner.Accept()
		if err != nil {
			return errors.Join(err, client.Close())
		}
		fmt.Println("hostpath: a connection from", server.RemoteAddr())
		go join(client, server)
	}
}

// join copies between two connections until one of them ends, and closes both.
func join(a, b net.Conn) {
	end := sync.OnceFunc(func() {
		_ = a.Close()
		_ = b.Close()
	})
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			defer end()
			_, _ = io.Copy(way[0], way[1]) // who reads sees the end
		})
	}
	wg.Wait()
}
