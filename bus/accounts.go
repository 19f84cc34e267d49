package bus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

const (
	agentAccount    = "AGENT"
	observerAccount = "OBSERVER"
	queryAccount    = "QUERY"
	systemAccount   = "SYS"

	// queries are the subjects of requests to the agent; discovery finds the services that reply.
	queries   = "journalet.>"
	discovery = "$SRV.>"
	// control are the requests that change something.
	control = "journalet.*.control.>"
	inboxes = "_INBOX.>"
	// pastEvents are the subjects of observers' requests for past events. The agent receives the requests as messages
	// of the observers' account on pastPrefix, and replies on repliesPrefix: see exports.
	pastEvents    = "journalet.*.events.read"
	pastPrefix    = "observer"
	repliesPrefix = "reply."

	credentialsDir = "credentials"
	// maxKeyFile bounds what is read of a key: it has about 300 bytes.
	maxKeyFile = 4 << 10
	// ObserverKeyFile is the key that permits to subscribe to events; see accounts.
	ObserverKeyFile = "observer.nk"
	// QueryKeyFile is the key that permits to send queries.
	QueryKeyFile = "query.nk"
	// ControlKeyFile is the key that permits to send requests that change something as well. It is accepted only on
	// the socket of the command line, so a copy of it is of no use on another machine.
	ControlKeyFile = "control.nk"

	// maxClientPayload bounds one message of a client: a request of 64 KiB and its headers.
	maxClientPayload = 68 << 10
)

// accounts are the NATS accounts of the bus. The agent's account holds the streams; the others get what it exports
// and nothing else. Observers receive events, and publish nothing but requests for events of the past. Query clients
// send requests, get replies and receive no events. These are separate accounts rather than one account with
// permissions: within one account a reader can move consumers, and a requester can direct the reply to any subject, so
// that it looks like an event to subscribers.
type accounts struct {
	agent, observer, query, system *server.Account
	users                          []*server.NkeyUser
	writer                         nkeys.KeyPair
}

// newAccounts creates the accounts. The writer's key is new at every start and stays in memory. The keys of observers
// and queries are created once and kept for commands on this machine.
func newAccounts(dir string) (*accounts, error) {
	a := &accounts{agent: server.NewAccount(agentAccount), system: server.NewAccount(systemAccount)}
	var err error
	if a.observer, err = clientAccount(observerAccount); err != nil {
		return nil, err
	}
	if a.query, err = clientAccount(queryAccount); err != nil {
		return nil, err
	}
	if err := a.exports(); err != nil {
		return nil, fmt.Errorf("bus: set up accounts: %w", err)
	}
	if a.writer, err = nkeys.CreateUser(); err != nil {
		return nil, fmt.Errorf("bus: create the writer's key: %w", err)
	}
	writer, err := a.writer.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("bus: create the writer's key: %w", err)
	}
	observer, err := publicKey(dir, ObserverKeyFile)
	if err != nil {
		return nil, err
	}
	requester, err := publicKey(dir, QueryKeyFile)
	if err != nil {
		return nil, err
	}
	controller, err := publicKey(dir, ControlKeyFile)
	if err != nil {
		return nil, err
	}
	inProcess := map[string]struct{}{jwt.ConnectionTypeInProcess: {}} // as the server sees the socket
	a.users = []*server.NkeyUser{
		{
			Nkey:                   writer,
			Account:                a.agent,
			AllowedConnectionTypes: inProcess,
		},
		{
			Nkey:    observer,
			Account: a.observer,
			Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{pastEvents}},
				Subscribe: &server.SubjectPermission{Allow: []string{messages.EventFilterAll, inboxes}},
			},
		},
		{
			Nkey:    requester,
			Account: a.query,
			Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{queries, discovery}, Deny: []string{control}},
				Subscribe: &server.SubjectPermission{Allow: []string{inboxes}},
			},
		},
		{
			Nkey:    controller,
			Account: a.query,
			Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{queries, discovery}},
				Subscribe: &server.SubjectPermission{Allow: []string{inboxes}},
			},
			AllowedConnectionTypes: inProcess,
		},
	}
	return a, nil
}

// clientAccount returns an account of clients, with maxClientPayload. The server takes such a limit only from the text
// of a configuration.
func clientAccount(name string) (*server.Account, error) {
	var o server.Options
	config := fmt.Sprintf("accounts { %s { limits { max_payload: %d } } }", name, maxClientPayload)
	if err := o.ProcessConfigString(config); err != nil {
		return nil, fmt.Errorf("bus: set up the account %s: %w", name, err)
	}
	return o.Accounts[0], nil
}

func (a *accounts) exports() error {
	// A request has one response. For a stream of responses the server would keep a mapping with the reply's subject
	// for minutes after each request, and a client can send gigabytes of such subjects.
	listeners, requesters := []*server.Account{a.observer}, []*server.Account{a.query}
	// Observers' requests come as plain messages, with the reply's subject, and not as requests to a service: the server
	// keeps nothing for them, and the agent replies to inboxes alone, so that no reply passes for an event.
	return errors.Join(
		a.observer.AddStreamExport(pastEvents, []*server.Account{a.agent}),
		a.agent.AddStreamImport(a.observer, pastEvents, pastPrefix),
		a.agent.AddStreamExport(repliesPrefix+inboxes, listeners),
		a.observer.AddMappedStreamImport(a.agent, repliesPrefix+inboxes, inboxes),
		a.agent.AddStreamExport(messages.EventFilterAll, listeners),
		a.agent.AddServiceExportWithResponse(queries, server.Singleton, requesters),
		a.agent.AddServiceExportWithResponse(discovery, server.Singleton, requesters),
		a.observer.AddStreamImport(a.agent, messages.EventFilterAll, ""),
		a.query.AddServiceImport(a.agent, queries, queries),
		a.query.AddServiceImport(a.agent, discovery, discovery),
	)
}

// PastEvents returns the subject where a node's agent receives observers' requests for past events.
func PastEvents(node string) string {
	return pastPrefix + "." + strings.Replace(pastEvents, "*", messages.Token(node), 1)
}

// maxReplySubject bounds the subject that an observer names for a reply, in bytes. A client's own has about 50.
const maxReplySubject = 256

// ReplySubject returns the subject in the agent's account that leads to an observer's inbox; false if the observer did
// not name an inbox.
func ReplySubject(inbox string) (string, bool) {
	prefix := strings.TrimSuffix(inboxes, ">")
	if len(inbox) > maxReplySubject || !strings.HasPrefix(inbox, prefix) || strings.ContainsAny(inbox, "*> \t\r\n") ||
		slices.Contains(strings.Split(inbox, "."), "") {
		return "", false
	}
	return repliesPrefix + inbox, true
}

func keyPath(dir, file string) string { return filepath.Join(dir, credentialsDir, file) }

// publicKey returns the public half of a client key, and creates the key if needed.
func publicKey(dir, file string) (string, error) {
	key, err := loadOrCreateKey(keyPath(dir, file))
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	pub, err := key.PublicKey()
	if err != nil {
		return "", fmt.Errorf("bus: read %s: %w", keyPath(dir, file), err)
	}
	return pub, nil
}

func loadOrCreateKey(path string) (nkeys.KeyPair, error) {
	seed, err := bounded.ReadFile(path, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: read the key: %w", err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("bus: %s holds no key: remove it, and the next start creates a new one", path)
	}
	return key, nil
}

func createKey(path string) (nkeys.KeyPair, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("bus: create a client key: %w", err)
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("bus: create a client key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("bus: create a client key: %w", err)
	}
	if err := durable.Write(path, append(seed, '\n')); err != nil {
		return nil, fmt.Errorf("bus: store a client key: %w", err)
	}
	return key, nil
}

// signWith returns the option that lets a connection prove that it holds key.
func signWith(key nkeys.KeyPair) (nats.Option, error) {
	pub, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(pub, key.Sign), nil
}
