package credentials

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/journalet/journalet/runtime/bounded"
)

// maxConfigBytes bounds a registry file. One in a Secret has at most 1 MiB too.
const maxConfigBytes = 1 << 20

// dockerConfig is the content of a registry file: entries by registry and path.
type dockerConfig map[string]dockerEntry

type dockerEntry struct{ Username, Password string }

var (
	errConfig = errors.New("it is no registry file; write it as docker login does")
	errAuth   = errors.New("a field auth is not the base64 text of USER:PASSWORD")
	errUTF8   = errors.New("a user or a password has bytes that are not UTF-8, and CRI passes on only text; " +
		"write the file, and what is in a field auth, in UTF-8")
)

// UnmarshalJSON reads an entry. User and password may be in one field, which then counts.
func (e *dockerEntry) UnmarshalJSON(data []byte) error {
	var fields struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Email    string `json:"email"`
		Auth     string `json:"auth"`
	}
	if bounded.JSON(data, maxConfigBytes, &fields) != nil {
		return errConfig
	}
	e.Username, e.Password = fields.Username, fields.Password
	if fields.Auth == "" {
		return nil
	}
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(strings.TrimSpace(fields.Auth), "=") {
		encoding = base64.StdEncoding
	}
	text, err := encoding.DecodeString(fields.Auth)
	if err != nil {
		return errAuth
	}
	var ok bool
	if e.Username, e.Password, ok = strings.Cut(string(text), ":"); !ok {
		return errAuth
	}
	if !utf8.Valid(text) {
		return errUTF8
	}
	return nil
}

// parseConfigJSON reads the content of config.json, or of a Secret of type kubernetes.io/dockerconfigjson. An error
// holds nothing of it.
func parseConfigJSON(data []byte) (dockerConfig, error) {
	var file struct {
		Auths dockerConfig `json:"auths"`
		// As the kubelet's, so that a file with other values in it is refused by both.
		HTTPHeaders map[string]string `json:"HttpHeaders"`
	}
	err := decode(data, &file)
	return file.Auths, withoutContents(err)
}

// parseDockercfg reads the content of the older .dockercfg, or of a Secret of type kubernetes.io/dockercfg.
func parseDockercfg(data []byte) (config dockerConfig, err error) {
	err = decode(data, &config)
	return config, withoutContents(err)
}

// decode decodes a registry file. The decoder of JSON would replace what is not UTF-8, and a password be another one.
func decode(data []byte, into any) error {
	if !utf8.Valid(data) {
		return errUTF8
	}
	return bounded.JSON(data, maxConfigBytes, into)
}

func withoutContents(err error) error {
	if err == nil || errors.Is(err, errAuth) || errors.Is(err, errUTF8) || errors.Is(err, bounded.ErrTooLarge) {
		return err
	}
	return errConfig
}
