package credential

import "crypto/tls"

// Certified is the common name of a certificate that was shown and verified.
func Certified(c *tls.ConnectionState) (name string, ok bool) {
	if c == nil || len(c.VerifiedChains) == 0 {
		return "", false
	}
	return c.VerifiedChains[0][0].Subject.CommonName, true
}
