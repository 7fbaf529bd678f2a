/*
 * Public keys that sign releases, as their tools write them: a line of OpenSSH (`ssh-ed25519 AAAA… comment`), one of
 * `allowed_signers` (ssh-keygen(1), ALLOWED SIGNERS), a public key of minisign, or an Ed25519 key in PEM. All are Ed25519.
 */
import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { sha256, parsePublicKey, rawPublicKey } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { type KeyKind, signingNamespace } from '../../model/statement.js'
import { fingerprintOf } from './statement.js'

export interface PublicKey {
  kind: KeyKind
  key: KeyObject
  /** As ssh-keygen shows it. */
  fingerprint: string
  /** One line that `readPublicKey` reads. */
  text: string
  /** What the file says about the key: a comment of OpenSSH, or the id of minisign. Nobody vouches for it. */
  comment: string
  /** The application of a key in hardware ("ssh:"); null: the key is in a file. */
  application: string | null
  /** The id of minisign, 8 bytes; null: it is another kind. */
  minisignId: Buffer | null
}

/** A line of `allowed_signers`. */
export interface AllowedSigner {
  key: PublicKey
  /** Its first principal. */
  name: string
  notBefore: string | null
  notAfter: string | null
}

/** The type of an Ed25519 key of SSH. */
export const ed25519 = 'ssh-ed25519'
/** The type of an Ed25519 key of SSH in a hardware key. */
export const securityKey = 'sk-ssh-ed25519@openssh.com'
const rawBytes = 32
const maxSigners = 1000
const maxLineLength = 8 * 1024

/** Reads a public key. Refuses (400 `key_unreadable`) anything else. */
export function readPublicKey(given: string): PublicKey {
  const what = 'the public key'
  const text = given.trim()
  if (text.length > maxLineLength) throw unreadable(what, 'it is too long')
  if (text.includes('PRIVATE KEY')) throw unreadable(what, 'it is a private key. Keep it, and give the public key')
  if (text.startsWith('-----BEGIN PUBLIC KEY-----')) return ofPem(text)
  const lines = linesOf(text, what)
  const last = lines.at(-1) ?? ''
  if (lines.length <= 2 && /^RW[A-Za-z0-9+/]{54}$/.test(last)) return ofMinisign(last)
  if (lines.length !== 1) throw unreadable(what, 'it must be one line of OpenSSH, a public key of minisign, or PEM')
  const [signer] = text.startsWith('ssh-') || text.startsWith('sk-') ? [] : [readSigner(text, 1)]
  return signer?.key ?? ofSsh(text.split(/\s+/))
}

function ofPem(text: string): PublicKey {
  const key = ed25519Of(() => createPublicKey(text))
  return known({ kind: 'svc', key, text: pemText(key), comment: '', application: null, minisignId: null })
}

/** Returns the key of a private one of svc. */
export function publicKeyOf(key: KeyObject): PublicKey {
  return ofPem(pemText(key.type === 'private' ? createPublicKey(key) : key))
}

const pemText = (key: KeyObject): string => key.export({ type: 'spki', format: 'pem' }).toString().trim()

function ofMinisign(line: string): PublicKey {
  const bytes = bytesOf(line, 'the public key')
  if (bytes.length !== 42) throw unreadable('the public key', 'it has another length than a key of minisign')
  if (bytes.toString('latin1', 0, 2) !== 'Ed') throw unreadable('the public key', 'its algorithm is not known')
  const minisignId = Buffer.from(bytes.subarray(2, 10))
  const key = rawKey(bytes.subarray(10))
  return known({ kind: 'minisign', key, text: line, comment: minisignName(minisignId), application: null, minisignId })
}

/** Returns the id of a key as minisign prints it: a number, without leading zeros. */
export function minisignName(id: Buffer): string {
  return id.readBigUInt64LE().toString(16).toUpperCase()
}

function ofSsh([type = '', base64 = '', ...comment]: string[]): PublicKey {
  const key = ofBlob(bytesOf(base64, 'the public key'))
  if (!key.text.startsWith(`${type} `)) throw unreadable('the public key', `it is none of type "${type.slice(0, 50)}"`)
  return { ...key, comment: comment.join(' ') }
}

/** Reads the bytes of an SSH key (RFC 8709 §4, PROTOCOL.u2f). */
export function ofBlob(blob: Buffer): PublicKey {
  const what = 'the public key'
  const reader = sshReader(blob, what)
  const type = reader.text()
  if (type !== ed25519 && type !== securityKey) {
    throw unreadable(what, 'only Ed25519 keys sign releases: make one with "ssh-keygen -t ed25519"')
  }
  const key = rawKey(reader.string())
  const application = type === securityKey ? reader.text() : null
  reader.end()
  const text = `${type} ${blob.toString('base64')}`
  return {
    ...known({ kind: 'ssh', key, text, comment: '', application, minisignId: null }),
    fingerprint: ofBytes(blob)
  }
}

const ofBytes = (blob: Buffer): string => `SHA256:${sha256(blob).toString('base64').slice(0, -1)}`

function known(key: Omit<PublicKey, 'fingerprint'>): PublicKey {
  refuseWeak(rawPublicKey(key.key))
  return { ...key, fingerprint: fingerprintOf(key.key) }
}

/** The points of small order (RFC 8032 §5.1, RFC 7748 §7), without the sign of x: anybody can sign for such a key. */
const weak: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f'
])

function refuseWeak(raw: Buffer): void {
  const bytes = Buffer.from(raw)
  bytes[rawBytes - 1] = (bytes[rawBytes - 1] as number) & 0x7f
  if (weak.has(bytes.toString('hex'))) throw unreadable('the key', 'it is a weak key, for which anybody can sign')
}

/** Returns the key of 32 bytes. */
export function rawKey(raw: Buffer): KeyObject {
  if (raw.length !== rawBytes) throw unreadable('the public key', 'an Ed25519 key has 32 bytes')
  return ed25519Of(() => parsePublicKey(raw.toString('base64')) as KeyObject)
}

function ed25519Of(read: () => KeyObject): KeyObject {
  let key: KeyObject
  try {
    key = read()
  } catch {
    throw unreadable('the key', 'it is damaged')
  }
  if (key.asymmetricKeyType !== 'ed25519') throw unreadable('the key', 'it is not an Ed25519 key')
  return key
}

/** Reads a private key of svc: Ed25519, PKCS #8 in PEM. */
export function readPrivateKey(pem: string): KeyObject {
  return ed25519Of(() => createPrivateKey(pem))
}

/** Reads `allowed_signers`: a key in each line. Refuses a line that it does not understand, naming its number. */
export function readAllowedSigners(text: string): AllowedSigner[] {
  const lines = linesOf(text, 'the allowed signers')
  const signers = lines.flatMap((line, index) => (/^\s*(#|$)/.test(line) ? [] : [readSigner(line.trim(), index + 1)]))
  if (signers.length > maxSigners) throw unreadable('the allowed signers', `more than ${maxSigners} keys`)
  return signers
}

/** Reads the file of the allowed signers. A missing file contains none. */
export function readSignersFile(path: string): AllowedSigner[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new Refusal('unavailable', 'signers_unreadable', `Cannot read "${path}": ${(error as Error).message}`)
  }
  try {
    return readAllowedSigners(text)
  } catch (error) {
    throw new Refusal('unavailable', 'signers_unreadable', `Cannot use "${path}": ${(error as Error).message}`)
  }
}

/** Words of a line; a text in quotes may contain spaces. */
const word = /(?:[^\s"]|"[^"]*")+/g

function readSigner(line: string, number: number): AllowedSigner {
  const what = `line ${number} of the allowed signers`
  if (line.length > maxLineLength) throw unreadable(what, 'it is too long')
  const words = line.match(word) ?? []
  const at = words.findIndex((each, index) => index > 0 && /^(sk-)?(ssh|ecdsa)-/.test(each))
  // A key of minisign or of svc has no type: one word in base64.
  const own = at === -1 ? words.at(-1) : undefined
  if (own !== undefined && words.length >= 2 && /^RW[A-Za-z0-9+/]{54}$/.test(own)) {
    return signerOf(words.slice(0, -1), ofMinisign(own), what)
  }
  // The second line of its PEM file.
  if (own !== undefined && words.length >= 2 && /^MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=$/.test(own)) {
    const pem = `-----BEGIN PUBLIC KEY-----\n${own}\n-----END PUBLIC KEY-----`
    return signerOf(words.slice(0, -1), ofPem(pem), what)
  }
  if (at === -1) throw unreadable(what, 'it contains no key')
  return signerOf(words.slice(0, at), ofSsh(words.slice(at)), what)
}

function signerOf([principals = '', ...rest]: string[], key: PublicKey, what: string): AllowedSigner {
  const name = principals.replaceAll('"', '').split(',')[0] ?? ''
  if (nameFault(name) !== null) throw unreadable(what, `the name ${nameFault(name)}`)
  const options = rest.join(' ').match(/(?:[^,"]|"[^"]*")+/g) ?? []
  const signer: AllowedSigner = { key, name, notBefore: null, notAfter: null }
  for (const option of options) {
    const [name = '', value = ''] = option.split(/=(.*)/s)
    const given = value.replaceAll('"', '')
    if (name === 'namespaces') refuseOtherNamespace(given, what)
    else if (name === 'valid-after') signer.notBefore = timeOf(given, what)
    else if (name === 'valid-before') signer.notAfter = timeOf(given, what)
    // An option that is not understood might restrict the key.
    else throw unreadable(what, `the option "${name.slice(0, 50)}" is not supported`)
  }
  return signer
}

function refuseOtherNamespace(patterns: string, what: string): void {
  if (patterns.split(',').includes(signingNamespace)) return
  throw unreadable(what, `its namespaces do not contain "${signingNamespace}"`)
}

/** Reads YYYYMMDD[HHMM[SS]][Z]. A time without Z is one of the machine. */
function timeOf(given: string, what: string): string {
  const parts = /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)$/.exec(given)
  if (parts === null) throw unreadable(what, `"${given.slice(0, 50)}" is no time`)
  const [, year, month, day, hour = '00', minute = '00', second = '00', zone] = parts
  const atMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${zone}`)
  if (Number.isNaN(atMs)) throw unreadable(what, `"${given}" is no time`)
  return new Date(atMs).toISOString()
}

const maxNameLength = 100

/** Returns why a name is not one of a key, or null: people must tell names apart that they read. */
export function nameFault(name: string): string | null {
  if (name === '' || name.length > maxNameLength) return `must have 1 to ${maxNameLength} characters`
  if (!/^[A-Za-z0-9]([A-Za-z0-9._@+ -]*[A-Za-z0-9])?$/.test(name)) {
    return 'may contain letters of ASCII, digits, spaces and . _ @ + -'
  }
  return /\s\s/.test(name) ? 'contains two spaces' : null
}

/** Returns what a reader takes a name for: names with the same look are confused. */
export function looksLike(name: string): string {
  return name
    .toLowerCase()
    .replace(/[\s._+-]/g, '')
    .replaceAll('rn', 'm')
    .replaceAll('vv', 'w')
    .replace(/[1i|]/g, 'l')
    .replaceAll('0', 'o')
    .replaceAll('5', 's')
}

/* Readers of bytes and texts that signatures and keys consist of: SSH (RFC 4251 §5), base64, and lines. */

/** Maximum length of a text that is read: the longest has 16 signatures of 16 KiB. */
const maxTextLength = 256 * 1024

/** Returns the refusal of a key or a signature that cannot be read. */
export function unreadable(what: string, why: string): Refusal {
  return new Refusal('invalid', 'key_unreadable', `Cannot read ${what}: ${why}`)
}

/** Returns the bytes of base64. Refuses any other text, and one that would be written in another way. */
export function bytesOf(text: string, what: string): Buffer {
  if (text.length > maxTextLength) throw unreadable(what, 'it is too long')
  const bytes = Buffer.from(text, 'base64')
  if (text === '' || bytes.toString('base64') !== text) throw unreadable(what, 'it is not base64')
  return bytes
}

/** Returns the base64 between the lines of a head and an end. */
export function armored(text: string, name: string, what: string): Buffer {
  const lines = linesOf(text, what)
  const [first, last] = [`-----BEGIN ${name}-----`, `-----END ${name}-----`]
  if (lines[0] !== first || lines.at(-1) !== last) throw unreadable(what, `it is not between "${first}" and "${last}"`)
  return bytesOf(lines.slice(1, -1).join(''), what)
}

/** Returns the lines of a text, without the last newline. */
export function linesOf(text: string, what: string): string[] {
  if (text.length > maxTextLength) throw unreadable(what, 'it is too long')
  const lines = text.split('\n').map(line => (line.endsWith('\r') ? line.slice(0, -1) : line))
  while (lines.at(-1) === '') lines.pop()
  return lines
}

/** Reads the parts of SSH's bytes, one after the other. */
export function sshReader(bytes: Buffer, what: string) {
  let at = 0
  const take = (length: number): Buffer => {
    if (length > bytes.length - at) throw unreadable(what, 'it ends too early')
    const part = bytes.subarray(at, at + length)
    at += length
    return part
  }
  const number = (): number => take(4).readUInt32BE()
  return {
    take,
    number,
    string: (): Buffer => take(number()),
    text: (): string => take(number()).toString('latin1'),
    rest: (): Buffer => take(bytes.length - at),
    /** Refuses what follows. */
    end(): void {
      if (at !== bytes.length) throw unreadable(what, 'something follows it')
    }
  }
}
