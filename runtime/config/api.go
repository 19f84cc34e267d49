package config

import (
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/api/local"
)

// addAPIFlags adds the flags of the socket of the kubelet server's paths.
func (c *Config) addAPIFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.EnableServer, "enable-server", c.EnableServer,
		"open the socket of the kubelet server's paths: logs, exec, attach, port-forward, stats")
	fs.StringVar(&c.APISocket, "api-socket", c.APISocket, "path of that socket; empty: kubelet.sock in --root-dir")
	fs.StringVar(&c.APISocketGroup, "api-socket-group", c.APISocketGroup,
		"group whose members may use the socket, and so act as root in every pod; it has to be able to enter the socket's "+
			"directory. Empty: the agent's user alone")
}

// Socket returns the path of the socket of the kubelet server's paths.
func (c *Config) Socket() string {
	if c.APISocket != "" {
		return c.APISocket
	}
	return filepath.Join(c.RootDir, local.SocketFile)
}
