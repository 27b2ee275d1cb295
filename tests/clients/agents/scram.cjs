// SCRAM-SHA-256 (RFC 7677) for users of MQTT.js, which leaves the content of AUTH to them: in Node, and in a page.
'use strict'
class Scram {
  // `crypto`: that of the Web.
  constructor (user, password, crypto) {
    this.subtle = crypto.subtle
    this.password = password
    this.nonce = Array.from(crypto.getRandomValues(new Uint8Array(18)), byte => byte.toString(16)).join('')
    this.bare = `n=${user.replaceAll('=', '=3D').replaceAll(',', '=2C')},r=${this.nonce}`
    this.first = `n,,${this.bare}`
  }

  properties (text) {
    const data = new TextEncoder().encode(text)
    return {
      authenticationMethod: 'SCRAM-SHA-256',
      authenticationData: typeof Buffer === 'undefined' ? data : Buffer.from(data)
    }
  }

  // What MQTT.js calls with an AUTH of the broker's; `done` gets the answer.
  handle (packet, done) {
    const challenge = new TextDecoder().decode(packet.properties.authenticationData)
    this.final(challenge).then(
      text => done(undefined, { cmd: 'auth', reasonCode: 0x18, properties: this.properties(text) }),
      error => done(error)
    )
  }

  async final (challenge) {
    const [nonce, salt, iterations] = challenge.split(',').map(part => part.slice(2))
    if (!nonce.startsWith(this.nonce)) throw new Error('the nonce is not ours')
    const withoutProof = `c=biws,r=${nonce}`
    const key = await this.subtle.importKey('raw', bytes(this.password), 'PBKDF2', false, ['deriveBits'])
    const salted = await this.subtle.deriveBits(
      { name: 'PBKDF2', hash: 'SHA-256', salt: Uint8Array.from(atob(salt), c => c.charCodeAt(0)), iterations: Number(iterations) },
      key, 256
    )
    const clientKey = await this.hmac(salted, 'Client Key')
    const storedKey = await this.subtle.digest('SHA-256', clientKey)
    const signature = new Uint8Array(await this.hmac(storedKey, `${this.bare},${challenge},${withoutProof}`))
    const proof = new Uint8Array(clientKey).map((byte, position) => byte ^ signature[position])
    return `${withoutProof},p=${btoa(String.fromCharCode(...proof))}`
  }

  async hmac (key, text) {
    const made = await this.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
    return this.subtle.sign('HMAC', made, bytes(text))
  }
}

function bytes (text) { return new TextEncoder().encode(text) }

if (typeof module !== 'undefined') module.exports = { Scram }
