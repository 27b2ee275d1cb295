// MQTT.js: carries out the exchange that standard input describes (JSON) and prints what was received (JSON).
'use strict'
const fs = require('node:fs')
const mqtt = require('mqtt')

const plan = JSON.parse(fs.readFileSync(0, 'utf8'))
const options = {
  host: plan.host,
  port: plan.port,
  protocol: plan.tls ? 'mqtts' : 'mqtt',
  protocolVersion: plan.version,
  reconnectPeriod: 0,
  connectTimeout: plan.timeout,
  resubscribe: false
}
if (plan.tls) options.ca = fs.readFileSync(plan.tls.cafile)
if (plan.tls && plan.tls.certfile) {
  options.cert = fs.readFileSync(plan.tls.certfile)
  options.key = fs.readFileSync(plan.tls.keyfile)
}

// MQTT.js writes the client id that it makes up into the options it was given.
const connect = () => mqtt.connectAsync({ ...options })

// A subscriber that resolves `done` with its first `count` messages.
async function subscriber (count) {
  const received = []
  const client = await connect()
  const done = new Promise((resolve, reject) => {
    client.on('error', reject)
    client.on('close', () => reject(new Error('connection closed')))
    client.on('message', (topic, payload, packet) => {
      if (received.length === count) return
      received.push({ topic, payload: payload.toString('base64'), qos: packet.qos, retain: packet.retain })
      if (received.length === count) resolve(received)
    })
  })
  const granted = await client.subscribeAsync(plan.filter, { qos: plan.qos })
  if (granted[0].qos !== plan.qos) throw new Error(`granted QoS ${granted[0].qos}`)
  return { client, done }
}

async function main () {
  const limit = setTimeout(() => { throw new Error('out of time') }, plan.timeout)
  const publisher = await connect()
  const first = await subscriber(plan.messages.length + 1)
  for (const [topic, payload] of plan.messages) {
    await publisher.publishAsync(topic, Buffer.from(payload, 'base64'), { qos: plan.qos })
  }
  const kept = Buffer.from(plan.kept, 'base64')
  await publisher.publishAsync(plan.keptTopic, kept, { qos: plan.qos, retain: true })
  const live = await first.done
  const late = await subscriber(1)
  const retained = await late.done
  await publisher.publishAsync(plan.keptTopic, '', { qos: plan.qos, retain: true })
  for (const client of [first.client, late.client, publisher]) await client.endAsync()
  clearTimeout(limit)
  process.stdout.write(JSON.stringify({ live, retained }))
}

main()
