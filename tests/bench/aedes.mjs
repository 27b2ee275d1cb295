// aedes as a broker: node aedes.mjs NODE_MODULES PORT
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [modules, port] = process.argv.slice(2)
const file = createRequire(join(modules, 'any.js')).resolve('aedes')
const { Aedes } = await import(pathToFileURL(file))
const broker = await Aedes.createBroker()
createServer(broker.handle).listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 })
