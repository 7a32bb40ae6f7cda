package amqpbus

// SetBetween has sessions that are opened from now on call f between the steps of a request.
func (b *Bus) SetBetween(f func(step string)) { b.between = f }
