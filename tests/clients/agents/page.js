// MQTT.js in a page: what chromium_client.py calls. `received` and `gone` are calls of the agent's.
'use strict'
let client

function begin (url, order) {
  const options = { protocolVersion: order.version, clientId: order.client_id, clean: order.clean }
  if (order.version === 5) options.properties = { sessionExpiryInterval: order.expiry }
  if (order.username && !order.scram) [options.username, options.password] = [order.username, order.password || undefined]
  const scram = order.scram && new Scram(order.username, order.password, crypto)
  if (scram) Object.assign(options.properties, scram.properties(scram.first))
  client = mqtt.connect(url, options)
  if (scram) client.handleAuth = (packet, done) => scram.handle(packet, done)
  client.on('message', (topic, payload, packet) =>
    received(topic, Array.from(payload), packet.qos, packet.retain))
  client.on('close', () => gone('connection closed'))
  return new Promise(resolve => {
    const refused = error => { client.end(true); resolve({ error: error.message, code: error.code ?? -1 }) }
    client.on('error', refused)
    // A refusal closes the connection first, and is an error behind that.
    client.on('close', () => setTimeout(() => { if (!client.connected) refused(new Error('closed')) }))
    client.on('connect', () => resolve({}))
  })
}

function done (verb, ...more) {
  return new Promise(resolve => client[verb](...more, (error, result) =>
    resolve(error ? { error: error.message } : { granted: result?.[0]?.qos })))
}
