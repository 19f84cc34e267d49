package bus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/journalet/journalet/messages"
)

const (
	agentAccount    = "AGENT"
	observerAccount = "OBSERVER"
	systemAccount   = "SYS"

	// queries are what observers may ask the agent; discovery finds the services that answer.
	queries   = "journalet.>"
	discovery = "$SRV.>"
	inboxes   = "_INBOX.>"

	credentialsDir  = "credentials"
	observerKeyFile = "observer.nk"
)

// accounts are the bus's three worlds. The agent's holds the streams; the observers' sees of it what
// is exported and nothing else. That they are different accounts, and not one account with a careful
// list of permissions, is the point: within one account a reader can forge answers and move consumers.
type accounts struct {
	agent, observer, system *server.Account
	users                   []*server.NkeyUser
	writer                  nkeys.KeyPair
}

// newAccounts makes the accounts. The writer's key is new at every start and stays in memory; the
// observers' is made once and kept for commands on this machine.
func newAccounts(dir string) (*accounts, error) {
	a := &accounts{
		agent:    server.NewAccount(agentAccount),
		observer: server.NewAccount(observerAccount),
		system:   server.NewAccount(systemAccount),
	}
	if err := a.exports(); err != nil {
		return nil, fmt.Errorf("bus: set up accounts: %w", err)
	}
	var err error
	if a.writer, err = nkeys.CreateUser(); err != nil {
		return nil, fmt.Errorf("bus: make the writer's key: %w", err)
	}
	writer, err := a.writer.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("bus: make the writer's key: %w", err)
	}
	observer, err := observerKey(dir)
	if err != nil {
		return nil, err
	}
	defer observer.Wipe()
	observerPub, err := observer.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("bus: read %s: %w", keyPath(dir), err)
	}
	a.users = []*server.NkeyUser{
		{
			Nkey:                   writer,
			Account:                a.agent,
			AllowedConnectionTypes: map[string]struct{}{jwt.ConnectionTypeInProcess: {}},
		},
		{
			Nkey:    observerPub,
			Account: a.observer,
			Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{queries, discovery}},
				Subscribe: &server.SubjectPermission{Allow: []string{messages.EventFilterAll, inboxes}},
			},
		},
	}
	return a, nil
}

func (a *accounts) exports() error {
	to := []*server.Account{a.observer}
	return errors.Join(
		a.agent.AddStreamExport(messages.EventFilterAll, to),
		a.agent.AddServiceExportWithResponse(queries, server.Streamed, to),
		a.agent.AddServiceExportWithResponse(discovery, server.Streamed, to),
		a.observer.AddStreamImport(a.agent, messages.EventFilterAll, ""),
		a.observer.AddServiceImport(a.agent, queries, queries),
		a.observer.AddServiceImport(a.agent, discovery, discovery),
	)
}

func keyPath(dir string) string { return filepath.Join(dir, credentialsDir, observerKeyFile) }

// observerKey reads the observers' key, and makes it if there is none yet.
func observerKey(dir string) (nkeys.KeyPair, error) {
	path := keyPath(dir)
	seed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeObserverKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: read the observers' key: %w", err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("bus: %s holds no key: remove it, and the next start makes a new one", path)
	}
	return key, nil
}

func makeObserverKey(path string) (nkeys.KeyPair, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("bus: make the observers' key: %w", err)
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("bus: make the observers' key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("bus: make the observers' key: %w", err)
	}
	if err := writeFileDurably(path, append(seed, '\n')); err != nil {
		return nil, fmt.Errorf("bus: keep the observers' key: %w", err)
	}
	return key, nil
}

// signWith lets a connection prove that it holds key.
func signWith(key nkeys.KeyPair) (nats.Option, error) {
	pub, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(pub, key.Sign), nil
}
