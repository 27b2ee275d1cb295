// MQTT.js, with callbacks, or async-mqtt, with promises: which one is said by the first argument.
'use strict'
const fs = require('node:fs')
const { Agent, numbered, serve } = require('./orders.cjs')
const { Scram } = require('./scram.cjs')

const promises = process.argv[2] === 'async-mqtt'
const mqtt = require(process.argv[2])

class MqttJs extends Agent {
  async connect (order) {
    this.begin()
    const options = {
      protocolVersion: order.version,
      clientId: order.client_id,
      clean: order.clean,
      rejectUnauthorized: true
    }
    if (order.version === 5) options.properties = { sessionExpiryInterval: order.expiry }
    if (order.will_topic) {
      const payload = Buffer.from(order.will_payload, 'hex')
      options.will = { topic: order.will_topic, payload, qos: order.will_qos, retain: order.will_retain }
    }
    if (order.username && !order.scram) [options.username, options.password] = [order.username, order.password || undefined]
    const scram = order.scram && new Scram(order.username, order.password, require('node:crypto').webcrypto)
    if (scram) Object.assign(options.properties, scram.properties(scram.first))
    if (order.cafile) options.ca = fs.readFileSync(order.cafile)
    if (order.certfile) {
      options.cert = fs.readFileSync(order.certfile)
      options.key = fs.readFileSync(order.keyfile)
    }
    const scheme = (order.websocket ? 'ws' : 'mqtt') + (order.cafile ? 's' : '')
    const path = order.websocket ? '/mqtt' : ''
    this.client = mqtt.connect(`${scheme}://${order.host}:${order.port}${path}`, options)
    if (scram) this.client.handleAuth = (packet, done) => scram.handle(packet, done)
    this.client.on('message', (topic, payload, packet) => this.received(topic, payload, packet.qos, packet.retain))
    this.client.on('close', () => this.gone('connection closed'))
    this.client.on('disconnect', packet => this.gone(`DISCONNECT 0x${packet.reasonCode.toString(16)}`))
    return new Promise((resolve, reject) => {
      const refused = error => { if (!connected) this.client.end(true); reject(error) }
      let connected = false
      this.client.on('error', error => { this.gone(error.message); refused(error) })
      this.client.on('close', () => refused(new Error('closed')))
      this.client.on('connect', () => { connected = true; resolve() })
    })
  }

  async subscribe ({ filter, qos }) {
    const granted = await this.done('subscribe', filter, { qos })
    if (granted[0].qos !== qos) throw new Error(`granted QoS ${granted[0].qos}`)
  }

  async publish ({ topic, payload, qos, retain }) {
    await this.done('publish', topic, Buffer.from(payload, 'hex'), { qos, retain })
  }

  async burst ({ topic, count, size, qos }) {
    const sent = []
    for (const payload of numbered(count, size)) sent.push(this.done('publish', topic, payload, { qos }))
    await Promise.all(sent)
    await this.disconnect()
  }

  async disconnect () {
    this.leaving = true
    await this.done('end', false)
  }

  // A promise for what the client has done; MQTT.js says it to a callback.
  done (verb, ...more) {
    if (promises) return this.client[verb](...more)
    return new Promise((resolve, reject) => {
      this.client[verb](...more, (error, result) => error ? reject(error) : resolve(result))
    })
  }
}

serve(new MqttJs())
