package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/journalet/journalet/test/cluster"
)

const usage = `usage: [LAB_NAME=default] [LAB_DIR=.lab] lab COMMAND

  up                      start the control plane; again: only check it
  down                    stop it with its nodes, and remove its data
  status                  what runs; exit status 0 if the API server is ready
  kubeconfig [NODE]       print the path of a kubeconfig: admin's, or one with a new certificate of a node
  bootstrap               print the path of a kubeconfig that may request the first certificate of a node
  kubectl ARGS            kubectl as admin
  kubeadm                 write what kubeadm join reads, and print the join command for another machine
  approve                 approve the pending requests for serving certificates of nodes
  join NODE ENDPOINT      this agent (bin/journalet, or JOURNALET) by TLS bootstrap, on a CRI runtime
  kubelet NODE ENDPOINT   the kubelet of the same release, on a CRI runtime
  leave NODE              stop such an agent and delete its Node
  programs                build what is missing and print the directory of the programs
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// directory returns where the cluster of LAB_NAME is kept.
func directory() (string, error) {
	lab, name := os.Getenv("LAB_DIR"), os.Getenv("LAB_NAME")
	if lab == "" {
		root, err := cluster.Checkout()
		if err != nil {
			return "", err
		}
		lab = filepath.Join(root, ".lab")
	}
	if name == "" {
		name = "default"
	}
	if strings.ContainsAny(name, "/.") {
		return "", fmt.Errorf("LAB_NAME %q must be a plain name", name)
	}
	return filepath.Abs(filepath.Join(lab, "clusters", name))
}

func run(ctx context.Context, args []string) error {
	dir, err := directory()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return errors.New(strings.TrimSpace(usage))
	}
	switch args[0] {
	case "up":
		return up(ctx, dir)
	case "programs":
		return programs(ctx)
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	c, err := cluster.Open(ctx, dir)
	if args[0] == "down" && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return command(ctx, c, args[0], args[1:])
}

// command runs a command on a cluster that is there.
func command(ctx context.Context, c *cluster.Cluster, name string, args []string) error {
	switch {
	case name == "down":
		if err := c.Stop(); err != nil {
			return err
		}
		return cluster.Remove(c.Dir)
	case name == "status":
		return c.Ready(ctx, cluster.APIServer)
	case name == "kubeconfig" && len(args) == 0:
		fmt.Println(c.Admin())
		return nil
	case name == "kubeconfig" && len(args) == 1:
		path, err := c.Node(args[0])
		fmt.Println(path)
		return err
	case name == "bootstrap":
		fmt.Println(c.Bootstrap())
		return nil
	case name == "kubectl":
		cmd := c.Command(ctx, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return cmd.Run()
	case name == "kubeadm":
		j, err := c.PrepareJoin(ctx, "")
		if err == nil {
			fmt.Println("kubeadm", strings.Join(j.Arguments(), " "))
		}
		return err
	case name == "approve":
		n, err := c.ApproveServing(ctx)
		fmt.Printf("approved %d\n", n)
		return err
	case name == "kubelet" && len(args) == 2:
		return c.StartKubelet(ctx, cluster.Node{Name: args[0], Endpoint: args[1]})
	case name == "join" && len(args) == 2:
		return join(ctx, c, args[0], args[1])
	case name == "leave" && len(args) == 1:
		return c.StopNode(ctx, args[0])
	}
	return errors.New(strings.TrimSpace(usage))
}

func up(ctx context.Context, dir string) error {
	started := time.Now()
	c, err := cluster.Open(ctx, dir)
	if err == nil {
		for _, p := range cluster.Parts() {
			pid, err := c.Running(p)
			if err == nil && pid == 0 {
				err = c.Launch(ctx, p)
			}
			if err != nil {
				return err
			}
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		c, err = cluster.Start(ctx, cluster.Options{Dir: dir, Detach: true})
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "cluster: up in %s: %s\n", time.Since(started).Round(100*time.Millisecond), c.Server())
	fmt.Fprintf(os.Stderr, "cluster: KUBECONFIG=%s, kubectl is %s\n", c.Admin(), c.Program(cluster.Kubectl))
	return nil
}

// programs builds all that a later step may need, so that this takes the time and not the step.
func programs(ctx context.Context) error {
	dir, err := cluster.Provide(ctx, append(cluster.Parts(), cluster.Kubectl, cluster.Kubeadm, cluster.Kubelet,
		cluster.Agnhost, cluster.Nonewprivs, cluster.E2E)...)
	fmt.Println(dir)
	return err
}

// join starts our agent as a node, unless it runs. It requests its certificate with the bootstrap token.
func join(ctx context.Context, c *cluster.Cluster, name, endpoint string) error {
	program := os.Getenv("JOURNALET")
	if program == "" {
		root, err := cluster.Checkout()
		if err != nil {
			return err
		}
		program = filepath.Join(root, "bin", "journalet")
	}
	return c.StartAgent(ctx, program, cluster.Node{Name: name, Endpoint: endpoint})
}
