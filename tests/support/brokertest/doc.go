// Package brokertest gives a test a real RabbitMQ of its own.
//
// # What it answers
//
// "Where is a broker, and how do I do to it what an operator or a fault would
// do?" [Vhost] makes a fresh virtual host on the broker that the environment
// names (scripts/broker.sh env prints the variables; `make test` sets them) and
// deletes it when the test ends. [Private] starts a whole node for the few tests
// that must stop, kill or alarm one.
//
// Objects are made and removed over the management HTTP API; messages and exact
// counts go over AMQP, because the management API shows counts that are up to
// five seconds old.
//
// # What it must never do
//
// It never skips: a test without its broker fails and says what to run. It never
// touches a virtual host that it did not make, and no error of it shows a
// password.
package brokertest
