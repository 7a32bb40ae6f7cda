package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
)

// lookEvery is how often the files of certificates are looked at, at most: at a handshake.
const lookEvery = 5 * time.Second

// certificates are those of the servers of this process, read again when their files have changed.
// It is safe for concurrent use.
type certificates struct {
	cert, key, clientCA string // files; clientCA may be empty
	logger              zerolog.Logger

	mu      sync.Mutex
	looked  time.Time
	stamp   string // of the files as they were read
	current *tls.Config
	broken  string // what has been wrong with them since; empty: nothing is
}

// readCertificates reads the server's certificate and key. clientCA, if not empty, has the authorities that sign
// certificates of clients; a client need not show one, so that health checks work without.
func readCertificates(cert, key, clientCA string, logger zerolog.Logger) (*certificates, error) {
	c := &certificates{cert: cert, key: key, clientCA: clientCA, logger: logger}
	stamp, err := c.stampOf()
	if err != nil {
		return nil, err
	}
	if c.current, err = c.read(); err != nil {
		return nil, err
	}
	c.stamp, c.looked = stamp, time.Now()
	return c, nil
}

// config is for a server that speaks these protocols inside TLS.
func (c *certificates) config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.latest().Clone()
			now.NextProtos = protocols
			return now, nil
		},
		// Not asked, for each client has a configuration of its own; there so that a server knows
		// that there are certificates.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.latest().Certificates[0], nil
		},
	}
}

// latest is what the files say, or what they said before they were broken.
func (c *certificates) latest() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.look()
	}
	return c.current
}

// look reads the files if they have changed. While they are broken, or only one of them is there
// anew, what they said before goes on.
func (c *certificates) look() {
	stamp, err := c.stampOf()
	if err == nil && stamp == c.stamp {
		c.broken = "" // those that were away are back: the next fault is news
		return
	}
	var next *tls.Config
	if err == nil {
		next, err = c.read()
	}
	if err != nil {
		if broken := err.Error(); broken != c.broken { // logged once
			c.broken = broken
			c.logger.Warn().Err(err).Msg("the certificates have changed and cannot be used; those before stay in force")
		}
		return
	}
	c.current, c.stamp, c.broken = next, stamp, ""
	c.logger.Info().Msg("the certificates were read again")
}

// stampOf changes when the files do.
func (c *certificates) stampOf() (stamp string, err error) {
	for _, path := range []string{c.cert, c.key, c.clientCA} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("look at the file of a certificate: %w", err)
		}
		stamp += fmt.Sprintf("%s %d;", info.ModTime(), info.Size())
	}
	return stamp, nil
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key: %w; both are PEM files, and belong together",
			c.cert, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.clientCA != "" {
		if config.ClientCAs, err = cli.ReadAuthorities(c.clientCA); err != nil {
			return nil, fmt.Errorf("read the authority of clients' certificates: %w", err)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}
