"""Print every event of a node once: observe.py HOST:PORT NODE KEYFILE. Needs PyNaCl (Debian: python3-nacl)."""
import base64, binascii, json, secrets, socket, sys, time
from nacl.signing import SigningKey

server, node, keyfile = sys.argv[1:]
last = (0, 0, 0)  # the position of the last event: epoch, record, index


def connect(inbox):
    """Sign in and subscribe. NATS has a text protocol, and an observer needs little of it."""
    conn = socket.create_connection(server.rsplit(":", 1), timeout=5)
    lines = conn.makefile("rb")
    nonce = json.loads(lines.readline()[5:])["nonce"]
    key = SigningKey(base64.b32decode(open(keyfile).read().strip() + "======")[2:34])  # between its type and a CRC
    public = bytes([20 << 3]) + bytes(key.verify_key)  # 20 is "U", a user
    public += binascii.crc_hqx(public, 0).to_bytes(2, "little")
    hello = {"nkey": base64.b32encode(public).decode().rstrip("="), "protocol": 1, "headers": True, "verbose": False,
             "sig": base64.urlsafe_b64encode(key.sign(nonce.encode()).signature).decode().rstrip("=")}
    conn.sendall(f"CONNECT {json.dumps(hello)}\r\nSUB event.{node}.> live\r\nSUB {inbox} past\r\n".encode())
    return conn, lines


def observe():
    """Print what follows the last event, first from the journal, then live, until the connection ends."""
    inbox = "_INBOX." + secrets.token_hex(11)
    conn, lines = connect(inbox)
    request_past(conn, inbox)
    waiting = []  # live events, until all of the past is read; then None
    while line := lines.readline().split():
        if line[0] == b"PING":
            conn.sendall(b"PONG\r\n")
        if line[0] not in (b"MSG", b"HMSG"):
            continue
        headers = int(line[-2]) if line[0] == b"HMSG" else 0
        message = json.loads(lines.read(int(line[-1]) + 2)[headers:])  # an error has no body: connect again
        if line[2] == b"live" and waiting is not None:
            waiting.append(message)
            continue
        emit(message["events"] if line[2] == b"past" else [message])
        if line[2] == b"past" and message["next"] <= message["last"]:
            request_past(conn, inbox)
        elif line[2] == b"past":
            emit(waiting)
            waiting = conn.settimeout(180)  # the server sends a PING every two minutes


def request_past(conn, inbox):
    body = json.dumps({"after": dict(zip(("epoch", "seq", "index"), last))})
    conn.sendall(f"PUB journalet.{node}.events.read {inbox} {len(body)}\r\n{body}\r\n".encode())


def emit(events):
    global last
    for e in events:
        if (e["epoch"], e["seq"], e["index"]) > last:  # else it was read from the journal before
            if e["event"] == "events_missed":
                raise OSError("the agent did not send all events: connect again and read them")
            print(json.dumps(e), flush=True)
            last = (e["epoch"], e["seq"], e["index"])


while True:
    try:
        observe()
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
    time.sleep(0.3)
