// Node-RED without its editor: a flow of mqtt in and mqtt out nodes, whose function nodes call this agent.
'use strict'
const fs = require('node:fs')
const http = require('node:http')
const path = require('node:path')
const RED = require('node-red')
const { Agent, numbered, serve } = require('./orders.cjs')

class NodeRed extends Agent {
  waiting = new Map() // what is to be told when a message's node is done with it, by the order's number
  states = []
  orders = 0

  // Write the flow for this connection into a folder of its own and start it.
  async connect (order) {
    const userDir = fs.mkdtempSync(path.join(process.env.TMPDIR || '/tmp', 'node-red-'))
    process.on('exit', () => fs.rmSync(userDir, { recursive: true, force: true }))
    fs.writeFileSync(path.join(userDir, 'flows.json'), JSON.stringify(flow(order)))
    const settings = {
      userDir,
      flowFile: 'flows.json',
      httpAdminRoot: false,
      httpNodeRoot: false,
      functionGlobalContext: { agent: this },
      logging: { console: { level: 'off' } },
      externalModules: { autoInstall: false, palette: { allowInstall: false } },
      telemetry: { enabled: false, updateNotification: false },
      credentialSecret: false
    }
    const connected = this.state('green')
    RED.init(http.createServer(), settings)
    await RED.start()
    await connected
  }

  async subscribe ({ filter, qos }) {
    await this.order({ action: 'subscribe', topic: { topic: filter, qos, datatype: 'buffer', rap: false } })
    // Node-RED does not tell when the SUBACK is there; a round trip behind it does.
    await this.publish({ topic: 'node-red/settled', payload: '', qos: 1, retain: false })
  }

  publish ({ topic, payload, qos, retain }) {
    return this.order({ topic, payload: Buffer.from(payload, 'hex'), qos, retain })
  }

  async burst ({ topic, count, size, qos }) {
    const sent = []
    for (const payload of numbered(count, size)) sent.push(this.order({ topic, payload, qos }))
    await Promise.all(sent)
    await this.disconnect()
  }

  disconnect () {
    this.leaving = true
    return this.order({ action: 'disconnect' })
  }

  // Send a message into the flow; the promise is kept when its node is done with it.
  order (message) {
    message.order = ++this.orders // the function node gives messages other ids than ours
    return new Promise((resolve, reject) => {
      this.waiting.set(message.order, { resolve, reject })
      this.send(message)
    })
  }

  // What the flow's function nodes call.
  ready (send) { this.send = send }

  complete (message) {
    this.waiting.get(message.order)?.resolve()
    this.waiting.delete(message.order)
  }

  failed (message) {
    this.waiting.get(message.order)?.reject(new Error(message.error.message))
    this.waiting.delete(message.order)
  }

  status (status) {
    if (status.fill !== 'green' && this.states.includes('green')) this.gone(status.text)
    this.states.push(status.fill)
    this.seen?.(status.fill)
  }

  state (fill) {
    return new Promise(resolve => { this.seen = shown => { if (shown === fill) resolve() } })
  }
}

function flow (order) {
  const tab = { id: 'tab', type: 'tab', label: 'agent' }
  const place = { z: 'tab', x: 0, y: 0 }
  const call = (id, func, more) => ({
    id, type: 'function', func, outputs: 0, initialize: '', finalize: '', libs: [], wires: [], ...place, ...more
  })
  const broker = {
    id: 'broker',
    type: 'mqtt-broker',
    broker: order.host,
    port: String(order.port),
    clientid: order.client_id,
    protocolVersion: String(order.version),
    cleansession: order.clean,
    sessionExpiry: order.expiry ? String(order.expiry) : '',
    keepalive: '60',
    usetls: Boolean(order.cafile),
    tls: order.cafile ? 'tls' : '',
    willTopic: order.will_topic,
    willPayload: order.will_topic ? Buffer.from(order.will_payload, 'hex').toString() : '',
    willQos: String(order.will_qos),
    willRetain: String(order.will_retain),
    autoConnect: true
  }
  const tls = {
    id: 'tls',
    type: 'tls-config',
    cert: order.certfile || '',
    key: order.keyfile || '',
    ca: order.cafile || '',
    verifyservercert: true
  }
  const agent = "global.get('agent')"
  return [tab, ...(order.cafile ? [tls] : []), broker,
    call('orders', '', {
      initialize: `${agent}.ready(message => node.send(message.action === 'subscribe' ? [message, null] : [null, message]))`,
      outputs: 2,
      wires: [['in'], ['out']]
    }),
    {
      // A session that is kept has its node and its filter in the flow; otherwise orders say what to subscribe to.
      id: 'in',
      type: 'mqtt in',
      inputs: order.filter ? 0 : 1,
      topic: order.filter,
      qos: '1',
      datatype: 'buffer',
      broker: 'broker',
      ...place,
      wires: [['received']]
    },
    { id: 'out', type: 'mqtt out', topic: '', qos: '', retain: '', broker: 'broker', ...place, wires: [] },
    call('received', `${agent}.received(msg.topic, msg.payload, msg.qos, msg.retain)`),
    { id: 'done', type: 'complete', scope: ['in', 'out'], uncaught: false, ...place, wires: [['complete']] },
    call('complete', `${agent}.complete(msg)`),
    { id: 'catch', type: 'catch', scope: ['in', 'out'], uncaught: false, ...place, wires: [['failed']] },
    call('failed', `${agent}.failed(msg)`),
    { id: 'watch', type: 'status', scope: ['out'], ...place, wires: [['status']] },
    call('status', `${agent}.status(msg.status)`)
  ]
}

serve(new NodeRed())
