package main

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/terminal"
)

var pictures = flag.String("pictures", "", "write the pictures of commands to this directory: make screens")

const (
	// keptPictures is where the pictures of the documents are.
	keptPictures = "../../docs/img"
	// maxPictureBytes bounds one of them.
	maxPictureBytes = 16 << 10
	pictureColumns  = 104
	pictureRows     = 24
)

// shown are the pods of the pictures.
const shown = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - {name: main, image: "docker.io/library/nginx:1.29", command: [sh, -c, "echo listening on 8080; n=1; while :; do sleep 0.3; echo GET /item/$n 200; n=2; done"]}
  - {name: sidecar, image: "docker.io/library/busybox:1.36", command: [sleep, "1000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: batch}
spec:
  priority: -10
  terminationGracePeriodSeconds: 30
  containers:
  - {name: main, image: "docker.io/library/busybox:1.36", command: [sleep, "1000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  priority: 1000
  containers:
  - {name: main, image: "docker.io/library/postgres:17", command: [sleep, "1000"]}
`

// picture is what a picture shows so far.
type picture struct {
	t    *testing.T
	root string
	text string
}

// shot runs a command in a terminal until it has printed a text, and adds what the terminal shows then.
func (p *picture) shot(args string, until func(x *terminal.Terminal)) {
	p.t.Helper()
	p.text += "$ journalet " + args + "\r\n"
	words := strings.Fields(args)
	cmd := journalet(append([]string{words[0], "--root-dir", p.root}, words[1:]...)...)
	x := terminal.Run(p.t, cmd)
	x.Resize(pictureColumns, pictureRows)
	until(x)
	p.text += x.Text()
	if !strings.HasSuffix(p.text, "\n") {
		p.text += "\r\n"
	}
}

// end is the end of a command.
func end(x *terminal.Terminal) { x.End() }

// TestPicturesOfCommands takes the pictures of the documents, of a simulated node, and checks that the taken and the
// kept pictures are within their bounds.
func TestPicturesOfCommands(t *testing.T) {
	root := simulatedNodeAt(t, "sim://?pull=3s", shown, 3)
	for _, c := range []struct {
		name, title string
		want        []string
		take        func(p *picture)
	}{
		{"logs-exec", "logs that are followed, and a session in a container", []string{"GET /item/2 200", "exit code 7"},
			func(p *picture) {
				p.shot("logs web -c main -f --tail 4", func(x *terminal.Terminal) {
					x.Expect("200\r\n")
					x.Expect("200\r\n")
					x.Expect("200\r\n")
					x.Expect("200\r\n")
					x.Expect("200\r\n")
					x.Type("\x03")
					x.End()
				})
				p.shot("exec -it web -c main -- sh", func(x *terminal.Terminal) {
					x.Expect("/ # ")
					x.Type("echo hello from the container\r")
					x.Expect("/ # ")
					x.Type("exit 7\r")
					x.End()
				})
			}},
		{"top", "what pods use", []string{"MEMORY(bytes)", "sidecar"}, func(p *picture) {
			p.shot("top --containers --sum", end)
		}},
		{"images", "images of the node, and a pull", []string{"LAST USED", "redis:8", "===="}, func(p *picture) {
			p.shot("images", end)
			p.shot("pull redis:8 memcached:1.6", func(x *terminal.Terminal) {
				x.Expect("] 2s")
				x.Expect("redis:8")
				x.Expect("\r\n")
			})
		}},
		{"drain", "what a drain waits for", []string{"GRACE LEFT", "stop container main", "default/batch"}, func(p *picture) {
			p.shot("drain", func(x *terminal.Terminal) {
				x.Expect("stop container")
				x.Expect("stop container")
				x.Expect("wait for those")
				x.Expect("\r\n")
			})
		}},
	} {
		p := &picture{t: t, root: root}
		c.take(p)
		screen := terminal.Show(p.text, pictureColumns, pictureRows)
		for _, want := range c.want {
			if !strings.Contains(screen.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, screen)
			}
		}
		taken := screen.SVG(c.title)
		name := c.name + ".svg"
		if *pictures != "" {
			must.OK(t, os.WriteFile(filepath.Join(*pictures, name), taken, 0o600))
			must.OK(t, os.Chmod(filepath.Join(*pictures, name), 0o644))
		}
		kept, err := os.ReadFile(filepath.Join(keptPictures, name))
		must.OK(t, err)
		for _, one := range [][]byte{taken, kept} {
			must.OK(t, xml.NewDecoder(bytes.NewReader(one)).Decode(new(struct{})))
			if len(one) > maxPictureBytes {
				t.Errorf("%s has %d bytes, at most %d", name, len(one), maxPictureBytes)
			}
		}
	}
}
