// Package authority signs certificates, for tests of what accepts some and refuses others. Tests alone import it. Start
// with New.
package authority
