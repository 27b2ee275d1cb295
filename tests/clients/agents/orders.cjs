// What the agents under Node share: the loop over the orders on standard input, and what has been received.
'use strict'
const readline = require('node:readline')

// Return codes of 3.1.1, and reason codes of MQTT 5 with the same meaning.
const RETURN_CODES = { 1: 0x84, 2: 0x85, 3: 0x88, 4: 0x86, 5: 0x87 }

class Agent {
  messages = []
  lost = []
  leaving = false

  begin () { [this.messages, this.lost, this.leaving] = [[], [], false] }

  received (topic, payload, qos, retain) { this.messages.push([topic, payload.toString('hex'), qos, retain]) }

  gone (why) { if (!this.leaving) this.lost.push(why) }

  // The first `count` messages, or fewer when for `seconds` nothing has come.
  async receive ({ count, seconds }) {
    let [seen, waited] = [this.messages.length, 0]
    while (this.messages.length < count && waited < seconds) {
      await new Promise(resolve => setTimeout(resolve, 10))
      waited = this.messages.length > seen ? 0 : waited + 0.01
      seen = this.messages.length
    }
    return { messages: this.messages.splice(0, count) }
  }
}

async function serve (agent) {
  for await (const line of readline.createInterface({ input: process.stdin, terminal: false })) {
    const order = JSON.parse(line)
    let answer
    try {
      answer = await agent[order.do](order)
    } catch (error) {
      answer = { error: `${error.name}: ${error.message}`, code: RETURN_CODES[error.code] ?? error.code }
    }
    process.stdout.write(JSON.stringify({ lost: agent.lost, ...answer }) + '\n')
  }
  process.exit(0)
}

// The payloads of a burst: a number of eight digits, filled up.
function * numbered (count, size) {
  for (let number = 0; number < count; number++) {
    yield Buffer.from(String(number).padStart(8, '0').padEnd(size, 'x'))
  }
}

module.exports = { Agent, RETURN_CODES, numbered, serve }
