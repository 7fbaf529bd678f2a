import type { IncomingHttpHeaders } from 'node:http'
import { isIPv4, isIPv6 } from 'node:net'
import type { ClientAddress } from './route.js'

/** A network: the first `bits` of `bytes` (4 bytes for IPv4, 16 for IPv6). */
export interface Cidr {
  bytes: Uint8Array
  bits: number
}

/** The client of a request on the owner's local socket. */
export const localClient: ClientAddress = Object.freeze({
  address: 'local',
  witnessed: 'local',
  viaProxy: false,
  local: true
})

/**
 * Returns who sent a request. `remote` is the address of the socket, `trusted` the networks of trusted proxies.
 *
 * A proxy appends the address it saw to X-Forwarded-For. The first entry is the client's only if the client did not
 * send such a header itself. The right-most entry that is not a trusted proxy was written by a trusted proxy about a
 * real peer, so nobody can forge it.
 */
export function clientAddress({
  remote,
  headers,
  trusted
}: {
  remote: string
  headers: IncomingHttpHeaders
  trusted: readonly Cidr[]
}): ClientAddress {
  const peer = normaliseAddress(remote) ?? remote
  if (!matchesCidr(peer, trusted)) return { address: peer, witnessed: peer, viaProxy: false, local: false }
  const chain = forwarded(headers)
  const address = chain[0] ?? peer
  let witnessed = peer
  for (let i = chain.length - 1; i >= 0; i--) {
    witnessed = chain[i] as string
    if (!matchesCidr(witnessed, trusted)) break
  }
  return { address, witnessed, viaProxy: true, local: false }
}

/**
 * Returns the addresses that the proxies wrote, the client's first. Entries that are not addresses (`unknown`,
 * `_hidden`) are left out.
 */
function forwarded(headers: IncomingHttpHeaders): string[] {
  const list = headers['x-forwarded-for']
  const entries = typeof list === 'string' ? list.split(',').flatMap(entry => normaliseAddress(entry) ?? []) : []
  if (entries.length > 0) return entries
  const real = headers['x-real-ip']
  return typeof real === 'string' ? [normaliseAddress(real) ?? []].flat() : []
}

/**
 * Returns an address in its only shortest spelling, or undefined if the text is not an address. Port, brackets and zone
 * are removed, and an IPv4-mapped IPv6 address becomes IPv4. With several spellings a client could escape the count of
 * its failures.
 */
export function normaliseAddress(text: string): string | undefined {
  const bytes = addressBytes(text)
  return bytes === undefined ? undefined : formatAddress(bytes)
}

const customerBytes = 8

/** Returns the network of one client: an IPv4 address itself, or the /64 of an IPv6 address (RFC 6177). */
export function networkOf(address: string): string {
  const bytes = addressBytes(address)
  if (bytes === undefined || bytes.length === 4) return address
  return `${formatAddress(Uint8Array.from({ length: 16 }, (_, i) => (i < customerBytes ? (bytes[i] as number) : 0)))}/64`
}

/** Whether the address, in any spelling, is this machine's own: 127.0.0.0/8 or ::1. */
export function isLoopback(address: string): boolean {
  return matchesCidr(address, loopback)
}

/** Parses `10.0.0.0/8`, `2001:db8::/32` or a single address. Returns undefined for anything else. */
export function parseCidr(text: string): Cidr | undefined {
  const [address = '', prefix, more] = text.trim().split('/')
  const bytes = more === undefined && isPlainAddress(address) ? addressBytes(address) : undefined
  if (bytes === undefined) return undefined
  if (prefix === undefined) return { bytes, bits: bytes.length * 8 }
  if (!/^(0|[1-9]\d{0,2})$/.test(prefix)) return undefined
  // ::ffff:10.0.0.0/104 counts the 128 bits of IPv6, but refers to the last 32 of them.
  const bits = bytes.length === 4 && isIPv6(address) ? Number(prefix) - 96 : Number(prefix)
  return bits < 0 || bits > bytes.length * 8 ? undefined : { bytes, bits }
}

const loopback = ['127.0.0.0/8', '::1'].flatMap(network => parseCidr(network) ?? [])

/** Whether the address, in any spelling, is in one of the networks. */
export function matchesCidr(address: string, networks: readonly Cidr[]): boolean {
  if (networks.length === 0) return false
  const bytes = addressBytes(address)
  return bytes !== undefined && networks.some(network => contains(network, bytes))
}

function contains(network: Cidr, bytes: Uint8Array): boolean {
  if (network.bytes.length !== bytes.length) return false
  const whole = network.bits >> 3
  for (let i = 0; i < whole; i++) if (network.bytes[i] !== bytes[i]) return false
  const rest = network.bits & 7
  if (rest === 0) return true
  const mask = 0xff << (8 - rest)
  return ((network.bytes[whole] as number) & mask) === ((bytes[whole] as number) & mask)
}

function isPlainAddress(text: string): boolean {
  return isIPv4(text) || (isIPv6(text) && !text.includes('%'))
}

function addressBytes(text: string): Uint8Array | undefined {
  const address = bare(text.trim())
  if (isIPv4(address)) return Uint8Array.from(address.split('.'), Number)
  if (!isIPv6(address)) return undefined
  const bytes = ipv6Bytes(address)
  const isMapped = bytes.subarray(0, 10).every(byte => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff
  return isMapped ? bytes.subarray(12) : bytes
}

/** Removes brackets, port and zone: `1.2.3.4:80`, `[::1]:80`, `fe80::1%eth0`. */
function bare(text: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)
  const address = bracketed?.[1] ?? (/^[\d.]+:\d{1,5}$/.test(text) ? text.slice(0, text.indexOf(':')) : text)
  const zone = address.indexOf('%')
  return zone === -1 ? address : address.slice(0, zone)
}

/**
 * Returns the bytes of a text that `isIPv6` has accepted (RFC 4291 §2.2): at most one `::`, and possibly four decimal
 * bytes at the end.
 */
function ipv6Bytes(text: string): Uint8Array {
  const [head = '', tail] = text.split('::')
  const left = groups(head)
  const right = tail === undefined ? [] : groups(tail)
  const bytes = new Uint8Array(16)
  bytes.set(left, 0)
  bytes.set(right, 16 - right.length)
  return bytes
}

function groups(text: string): number[] {
  if (text === '') return []
  return text.split(':').flatMap(group => {
    if (group.includes('.')) return group.split('.').map(Number)
    const value = parseInt(group, 16)
    return [value >> 8, value & 0xff]
  })
}

/**
 * Formats an address as RFC 5952 requires: lower case, no leading zeros, and `::` for the first longest run of two or
 * more zero groups.
 */
function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.')
  const words = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i] as number) << 8) | (bytes[2 * i + 1] as number))
  let run = { at: -1, length: 1 }
  for (let at = 0; at < 8; at++) {
    let length = 0
    while (at + length < 8 && words[at + length] === 0) length++
    if (length > run.length) run = { at, length }
  }
  const hex = (part: number[]) => part.map(word => word.toString(16)).join(':')
  if (run.at === -1) return hex(words)
  return `${hex(words.slice(0, run.at))}::${hex(words.slice(run.at + run.length))}`
}
