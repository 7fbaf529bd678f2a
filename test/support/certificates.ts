import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'
import { isIP } from 'node:net'

/*
 * Certificates for tests, of any time and any mistake: X.509 v3 (RFC 5280 §4.1) in DER, signed with ECDSA on P-256.
 * openssl's own commands make none that has expired.
 */
export interface Identity {
  /** PEM of the certificate alone. */
  cert: string
  /** PEM, PKCS #8. */
  key: string
  name: string
  keyObject: KeyObject
}

interface Wish {
  name?: string
  /** Names and addresses. */
  names?: string[]
  /** The signer. By default, the certificate signs itself. */
  issuer?: Identity
  isAuthority?: boolean
  from?: Date
  to?: Date
}

const dayMs = 24 * 60 * 60_000

export function makeCertificate(wish: Wish = {}): Identity {
  const { name = 'localhost', names = ['localhost', '127.0.0.1'], issuer, isAuthority = false } = wish
  const { from = new Date(Date.now() - dayMs), to = new Date(Date.now() + 90 * dayMs) } = wish
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const signer = issuer?.keyObject ?? privateKey
  const extensions = isAuthority
    ? [
        extension('2.5.29.19', true, sequence(tlv(0x01, Buffer.from([0xff])))),
        extension('2.5.29.15', true, tlv(0x03, Buffer.from([1, 6])))
      ]
    : [extension('2.5.29.17', false, sequence(...names.map(alternative)))]
  const body = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    nameOf(issuer?.name ?? name),
    sequence(timeOf(from), timeOf(to)),
    nameOf(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    tlv(0xa3, sequence(...extensions))
  )
  const der = sequence(body, ecdsaWithSha256, bitString(sign('sha256', body, signer)))
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  return { cert: pem(der), key, name, keyObject: privateKey }
}

/** Creates an authority, and a certificate for this machine signed by it. */
export function makeSigned(): { authority: Identity; server: Identity } {
  const authority = makeCertificate({ name: 'Test authority', isAuthority: true })
  return { authority, server: makeCertificate({ issuer: authority }) }
}

export function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) as string[]
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

function tlv(tag: number, content: Buffer): Buffer {
  const { length } = content
  const head =
    length < 128 ? [tag, length] : length < 256 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), content])
}

function sequence(...parts: Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(parts))
}

function bitString(bytes: Buffer): Buffer {
  return tlv(0x03, Buffer.concat([Buffer.from([0]), bytes]))
}

/** X.690 §8.19. */
function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const arc of rest) {
    const groups = [arc & 0x7f]
    for (let left = arc >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return tlv(0x06, Buffer.from(bytes))
}

const ecdsaWithSha256 = sequence(objectId('1.2.840.10045.4.3.2'))

function nameOf(common: string): Buffer {
  return sequence(tlv(0x31, sequence(objectId('2.5.4.3'), tlv(0x0c, Buffer.from(common)))))
}

function timeOf(time: Date): Buffer {
  return tlv(0x17, Buffer.from(`${time.toISOString().replace(/\D/g, '').slice(2, 14)}Z`))
}

function extension(id: string, isCritical: boolean, value: Buffer): Buffer {
  return sequence(objectId(id), ...(isCritical ? [tlv(0x01, Buffer.from([0xff]))] : []), tlv(0x04, value))
}

function alternative(name: string): Buffer {
  return isIP(name) === 4 ? tlv(0x87, Buffer.from(name.split('.').map(Number))) : tlv(0x82, Buffer.from(name))
}
