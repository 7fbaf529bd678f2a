/* The headers of requests that decide something: parameters, cookies, host and origin, the page and the client's address. */
import type { IncomingHttpHeaders } from 'node:http'
import { isIP, isIPv4 } from 'node:net'
import { Refusal } from '../../base/errors.js'
import type { ClientAddress, Request } from './route.js'

/** Default of the proxies whose X-Forwarded-For header is trusted: those of this machine. */
export const defaultTrustedProxies = '127.0.0.0/8,::1'

/** A header's value before the first semicolon, in lower case, and its parameters by name, in lower case. */
interface HeaderValue {
  value: string
  parameters: Map<string, string>
}

const parameter = /;[ \t]*(?:([!#$%&'*+.^`|~\w-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))[ \t]*)?/y

/**
 * Parses a header value such as `form-data; name="file"; filename*=UTF-8''na%C3%AFve.zip` (RFC 9110 §5.6.6). Returns
 * undefined if it is malformed. If a name occurs twice, the first value is kept. `name*` is decoded and kept under its
 * name with the asterisk.
 */
export function parseHeaderValue(text: string): HeaderValue | undefined {
  const semicolon = text.indexOf(';')
  const end = semicolon === -1 ? text.length : semicolon
  const parameters = new Map<string, string>()
  let at = end
  while (at < text.length) {
    parameter.lastIndex = at
    const found = parameter.exec(text)
    if (found === null) return undefined
    at = parameter.lastIndex
    const [, name, quoted, plain] = found
    if (name === undefined) continue
    const value = quoted === undefined ? (plain as string).trim() : unquote(quoted)
    const key = name.toLowerCase()
    const decoded = key.endsWith('*') ? decodeExtended(value) : value
    if (decoded !== undefined && !parameters.has(key)) parameters.set(key, decoded)
  }
  return { value: text.slice(0, end).trim().toLowerCase(), parameters }
}

/**
 * Removes escapes. Only `\"` and `\\` are escapes: a backslash before another character belongs to a Windows path. Some
 * clients send it unescaped, against RFC 9110 §5.6.4.
 */
function unquote(text: string): string {
  return text.includes('\\') ? text.replace(/\\(["\\])/g, '$1') : text
}

/** Decodes an extended value (RFC 8187 §3.2): charset, language, percent-encoded bytes. */
function decodeExtended(text: string): string | undefined {
  const found = /^([\w-]+)'[\w-]*'((?:[!#$&+.^`|~\w-]|%[\da-f]{2})*)$/i.exec(text)
  if (found === null) return undefined
  const [, charset = '', encoded = ''] = found
  const bytes = Buffer.from(
    encoded.replace(/%(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1'
  )
  if (charset.toLowerCase() === 'iso-8859-1') return bytes.toString('latin1')
  return charset.toLowerCase() === 'utf-8' ? bytes.toString('utf8') : undefined
}

/*
 * Cookies (RFC 6265), only what one session needs.
 */

/** A cookie to set. */
interface CookieOptions {
  name: string
  value: string
  /** Path of the cookie. Begins and ends with a slash. */
  path: string
  isSecure: boolean
  /** How long the browser keeps the cookie, in seconds. Null: until the browser is closed. 0: removes it. */
  maxAgeSeconds: number | null
}

/** A longer header is not read. Browsers limit a header to a few kilobytes. */
const maxHeaderLength = 16 * 1024

/** Returns the values of every cookie with one of these names, in the browser's order. */
export function cookiesOf(header: string | undefined, names: readonly string[]): string[] {
  if (header === undefined || header.length > maxHeaderLength) return []
  return header.split(';').flatMap(pair => {
    const at = pair.indexOf('=')
    return at > 0 && names.includes(pair.slice(0, at).trim()) ? [pair.slice(at + 1).trim()] : []
  })
}

/** Returns the value of Set-Cookie for a cookie that scripts cannot read and other sites cannot use. */
export function setCookie({ name, value, path, isSecure, maxAgeSeconds }: CookieOptions): string {
  const age = maxAgeSeconds === null ? '' : `; Max-Age=${maxAgeSeconds}`
  return `${name}=${value}; Path=${path}${age}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
}

/*
 * Checks the name in `Host` (RFC 9110 §7.2).
 *
 * The owner of a page can let its name resolve to 127.0.0.1, or to an address of the victim's network ("DNS
 * rebinding"). Then the browser treats the page as same-origin with svc and lets it send anything. But the page cannot
 * choose what the browser writes into Host: the page's own name. An IP address was never looked up, so it is always
 * allowed, and so is `localhost`.
 */

/**
 * Refuses a request for a name that is not in `allowed` (lower case): 421 `misdirected_host`. An empty list allows
 * every name. If the request came through a trusted proxy, the names in X-Forwarded-Host must be allowed too.
 */
export function checkHost({ headers, client }: Pick<Request, 'headers' | 'client'>, allowed: readonly string[]): void {
  if (allowed.length === 0 || client.local || client.hub?.isOwn) return
  const forwarded = client.viaProxy ? [headers['x-forwarded-host'] ?? []].flat().flatMap(names => names.split(',')) : []
  const wrong = [headers.host ?? '', ...forwarded].find(host => !isAllowed(host, allowed))
  if (wrong === undefined) return
  const sentence =
    `Host name not allowed: "${wrong.trim().slice(0, 255)}". ` +
    'Add it to the setting allowed_hosts, or use the address of SVC_PUBLIC_URL'
  throw new Refusal('misdirected', 'misdirected_host', sentence)
}

/** Whether a server with these allowed names accepts this value of Host. */
export function isAllowedHost(host: string | undefined, allowed: readonly string[]): boolean {
  return allowed.length === 0 || isAllowed(host ?? '', allowed)
}

function isAllowed(host: string, allowed: readonly string[]): boolean {
  const name = parseHost(host)?.name
  return name !== undefined && (name === '' || isFixedName(name) || allowed.includes(name))
}

/*
 * The only reader of `Host` (RFC 9110 §7.2: `host[:port]`) and `Origin` (RFC 6454 §7: `scheme://host[:port]`). Neither has
 * a user name, a path or a query: a text with more than its grammar names no host. A URL parser would accept
 * `https://host@evil`, and see the one or the other.
 */

/** A host, as browsers write it: in lower case, without brackets and the final dot. */
interface Place {
  name: string
  /** Null: that of the scheme. */
  port: number | null
}

/** The place that a page came from. */
interface Origin extends Place {
  scheme: 'http' | 'https'
  port: number
}

const ports = { http: 80, https: 443 } as const
const place = /^(?:\[([\da-f:.]+)\]|([\w.-]*))(?::(\d{0,5}))?$/i

/** Reads a value of `Host` or `X-Forwarded-Host`. Null: it names no host. The name is empty if the value is. */
export function parseHost(text: string): Place | null {
  const [found, address, name = '', port = ''] = place.exec(text.trim()) ?? []
  if (found === undefined) return null
  return { name: (address ?? name).toLowerCase().replace(/\.$/, ''), port: port === '' ? null : Number(port) }
}

/** Reads a value of `Origin`. Null: it is not an origin of the web. */
export function parseOrigin(text: string): Origin | null {
  const [, scheme = '', rest = ''] = /^(https?):\/\/(.+)$/i.exec(text) ?? []
  const found = rest === '' ? null : parseHost(rest)
  if (found === null || found.name === '') return null
  const known = scheme.toLowerCase() as Origin['scheme']
  return { ...found, scheme: known, port: found.port ?? ports[known] }
}

/** Whether a page of this origin is one of the server that was called by this host. Schemes are not compared. */
export function isOriginOf(origin: Origin, host: Place): boolean {
  return host.name === origin.name && (host.port ?? ports[origin.scheme]) === origin.port
}

/** Whether a name cannot be that of a page that was rebound: addresses are not looked up, and neither is `localhost`. */
export function isFixedName(name: string): boolean {
  return name === 'localhost' || isIP(name) !== 0
}

/*
 * Detects which page caused a request, from headers that the browser itself writes (Fetch Metadata).
 *
 * SameSite=Strict keeps a cookie out of requests of other sites. A site is a registrable domain: another port of this
 * host, or another name of its domain, is the same site, and its pages can send requests with the cookie. They cannot
 * read the answers, but they can measure them. Sec-Fetch-Site identifies these pages. Browsers send it over TLS and to
 * localhost.
 */

/**
 * A header of the panel's own requests. A page of another origin could send it only after a preflight, which svc
 * refuses.
 */
const panelHeader = 'x-svc-panel'

/** Whether the browser says that a page of another origin caused the request. */
export function isFromOtherOrigin(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site']
  return site !== undefined && site !== 'same-origin' && site !== 'none'
}

/**
 * Whether the answer may contain what another origin's page must not measure: the request has a cookie, no bearer token
 * (which a page would have to know), and no proof that the panel sent it.
 */
export function isMeasurable(headers: IncomingHttpHeaders): boolean {
  if (headers.cookie === undefined || headers.authorization !== undefined) return false
  return headers['sec-fetch-site'] !== 'same-origin' && headers[panelHeader] === undefined
}

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
  const bits = bytes.length === 4 && address.includes(':') ? Number(prefix) - 96 : Number(prefix)
  return bits < 0 || bits > bytes.length * 8 ? undefined : { bytes, bits }
}

/** 127.0.0.0/8 and ::1 as bytes: the expressions of node:net would be compiled for every command. */
const loopback: readonly Cidr[] = [
  { bytes: Uint8Array.of(127, 0, 0, 0), bits: 8 },
  { bytes: Uint8Array.from({ length: 16 }, (_, at) => (at === 15 ? 1 : 0)), bits: 128 }
]

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
  return isIPv4(text) || ipv6Bytes(text) !== undefined
}

function addressBytes(text: string): Uint8Array | undefined {
  const address = bare(text.trim())
  if (isIPv4(address)) return Uint8Array.from(address.split('.'), Number)
  const bytes = ipv6Bytes(address)
  if (bytes === undefined) return undefined
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
 * Returns the bytes of an IPv6 address without a zone (RFC 4291 §2.2): groups, at most one `::`, which stands for one group
 * or more, and possibly four decimal bytes at the end. Undefined: it is none. node:net decides by an expression that takes
 * some 10 ms to compile, which a start would wait for (test/bench/start).
 */
function ipv6Bytes(text: string): Uint8Array | undefined {
  const [head = '', tail, more] = text.split('::')
  const [left, right] = [groups(head), groups(tail ?? '')]
  if (left === undefined || right === undefined || more !== undefined) return undefined
  const given = left.length + right.length
  if (tail === undefined ? given !== 16 : given > 14 || head.includes('.')) return undefined
  const bytes = new Uint8Array(16)
  bytes.set(left, 0)
  bytes.set(right, 16 - right.length)
  return bytes
}

/** Returns the bytes of groups, the last of which may be an IPv4 address. Undefined: they are none. */
function groups(text: string): number[] | undefined {
  if (text === '') return []
  const bytes: number[] = []
  const all = text.split(':')
  for (const [at, group] of all.entries()) {
    if (at === all.length - 1 && isIPv4(group)) bytes.push(...group.split('.').map(Number))
    else if (/^[\da-f]{1,4}$/i.test(group)) bytes.push(parseInt(group, 16) >> 8, parseInt(group, 16) & 0xff)
    else return undefined
  }
  return bytes
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
