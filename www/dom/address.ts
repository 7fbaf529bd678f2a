/*
 * Decides which addresses an element may have. Every address in the panel passes one of these functions: html`…` calls
 * them for its attributes, and no other file assigns one.
 *
 * Records, logs and outputs are written by others. A link to this origin runs with the session of its reader, so text of
 * others leads to other servers only, and the panel's own links never lead to the API. A download does, and is not shown.
 */

class CheckedAddress {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  toString(): string {
    return this.#text
  }
}

/** An address that an element may have. Only the functions of this file create one. */
export type Address = CheckedAddress

/** Where the panel is. `root`: its base, also while a page of a node is shown. `base`: that of the document. */
export interface Here {
  root: string
  base: string
  /** Other addresses of this server. */
  others: readonly string[]
}

const root = typeof document === 'undefined' ? 'http://panel.invalid/' : document.baseURI

function here(): Here {
  if (typeof document === 'undefined') return { root, base: root, others: [] }
  return { root, base: document.baseURI, others: [publicUrl() ?? []].flat() }
}

/** Returns the public address of the server as it was configured, or null. */
export function publicUrl(): string | null {
  return document.querySelector<HTMLMetaElement>('meta[name="svc-public-url"]')?.content ?? null
}

/** Returns the server address for commands: its public address if known, else the one of this page's base. */
export function serverAddress(base: string): string {
  return publicUrl() ?? base.replace(/\/$/, '')
}

/** Longer addresses in text of others do not become links. */
const maxLength = 2083

/**
 * Returns the address of a link in text of others: in logs, outputs, and the claimed origin of files. Null if it does not
 * lead to another server over http or https, or names a user, because such an address looks like another one. Pure if
 * `where` is given.
 */
export function outsideAddress(text: string, where: Here = here()): Address | null {
  if (text.length > maxLength || !/^https?:\/\//i.test(text)) return null
  const url = parse(text)
  if (url === null || url.username !== '' || url.password !== '') return null
  const isHere = [where.root, ...where.others].some(own => isSameServer(url, new URL(own)))
  return isHere ? null : new CheckedAddress(url.href)
}

/**
 * Returns an address of a page of the panel, relative to the base of the document or absolute. Null if it leads to the API,
 * to another program of this origin, or elsewhere. Pure if `where` is given.
 */
export function panelAddress(text: string, where: Here = here()): Address | null {
  const below = pathBelowRoot(text, where)
  return below === null || below[0] === 'api' ? null : new CheckedAddress(text)
}

/** Returns the address of a picture: a file of the panel, or a blob of this page. */
export function pictureAddress(text: string, where: Here = here()): Address | null {
  if (text.startsWith(`blob:${new URL(where.root).origin}/`)) return new CheckedAddress(text)
  return panelAddress(text, where)
}

/** Returns the address that opens an authenticator. */
export function authenticatorAddress(text: string): Address | null {
  return text.startsWith('otpauth://totp/') ? new CheckedAddress(text) : null
}

/**
 * Returns a path of the panel. Each value becomes one segment, or the value of one field of the query. URLSearchParams are
 * inserted as they are.
 */
export function panelPath(strings: readonly string[], ...values: readonly unknown[]): string {
  return strings.map((text, index) => `${text}${index < values.length ? encoded(values[index]) : ''}`).join('')
}

/** Returns a value as a part of a path. A lone surrogate has no encoded form. */
export function encoded(value: unknown): string {
  if (value instanceof URLSearchParams) return String(value)
  return encodeURIComponent(String(value ?? '').replace(/\p{Surrogate}/gu, '\ufffd'))
}

/**
 * Whether a path contains a segment `.` or `..`, which would lead to another path, also after a proxy has decoded it. The
 * overview is `.` alone.
 */
export function hasDots(path: string): boolean {
  if (path === '.') return false
  const [before] = path.split(/[?#]/, 1) as [string]
  return before.split(/[/\\]|%2f|%5c/i).some(segment => /^(?:\.|%2e){1,2}$/i.test(segment))
}

/** Makes an element a link to another site, in another tab. */
export function leadOutside(anchor: HTMLAnchorElement, address: Address): void {
  anchor.href = String(address)
  anchor.target = '_blank'
  anchor.rel = 'noopener noreferrer'
}

/** Lets the browser save an answer of the API, or a blob. It never shows it. `name` can be empty: the server names it. */
export function download(source: string | Blob, name: string): void {
  const address = typeof source === 'string' ? source : URL.createObjectURL(source)
  const where = here()
  const isOurs = typeof source !== 'string' || pathBelowRoot(source, where)?.[0] === 'api'
  if (!isOurs) throw new TypeError(`Not an address of a download: "${address}"`)
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  if (typeof source !== 'string') setTimeout(() => URL.revokeObjectURL(address), 60_000)
}

/** Makes the links of the page relative to `address`. */
export function setBase(address: string): void {
  const element = document.querySelector('base')
  if (element !== null && element.href !== address && panelAddress(address) !== null) element.href = address
}

/**
 * Returns the rule for an attribute of an element: what becomes of a value that is an address; null if it is none. Throws
 * for attributes and elements that no template may have.
 */
export function addressRule(tag: string, name: string): ((value: unknown) => string | null) | null {
  const lower = name.toLowerCase()
  if (tags.has(tag.toLowerCase())) throw new TypeError(`<${tag}> is not for templates`)
  if (forbidden.test(lower)) throw new TypeError(`The attribute ${name} is not for templates`)
  if (!addresses.has(lower.replace(/^\./, ''))) return null
  if (lower === 'href') return value => checked(value, panelAddress)
  if (lower === 'src' && tag === 'img') return value => checked(value, pictureAddress)
  throw new TypeError(`The attribute ${name} of <${tag}> is not for templates`)
}

function checked(value: unknown, check: (text: string) => Address | null): string | null {
  if (value instanceof CheckedAddress) return String(value)
  const address = typeof value === 'string' ? check(value) : null
  return address === null ? null : String(address)
}

/** Elements that load or run what others wrote. */
const tags: ReadonlySet<string> = new Set([
  'base',
  'embed',
  'frame',
  'iframe',
  'link',
  'meta',
  'object',
  'portal',
  'script',
  'style',
  'template'
])
/** Attributes and properties that contain code, markup or styles. */
const forbidden = /^(?:on|\.(?:on|inner|outer)|\.?(?:srcdoc|style|is)$)/
/** Attributes and properties that contain an address. */
const addresses: ReadonlySet<string> = new Set([
  'href',
  'xlink:href',
  'src',
  'srcset',
  'imagesrcset',
  'action',
  'formaction',
  'data',
  'poster',
  'ping',
  'background',
  'cite',
  'codebase',
  'longdesc',
  'manifest',
  'usemap'
])

function parse(text: string, base?: string): URL | null {
  try {
    return new URL(text, base)
  } catch {
    return null
  }
}

/** Returns the decoded segments of an address below the root, or null if it is elsewhere. */
function pathBelowRoot(text: string, { root, base }: Here): string[] | null {
  const top = new URL(root)
  const url = parse(text, base)
  if (url === null || url.origin !== top.origin || url.username !== '' || url.password !== '') return null
  if (hasDots(text)) return null
  if (url.pathname === top.pathname.replace(/\/$/, '')) return []
  if (!url.pathname.startsWith(top.pathname)) return null
  const below = url.pathname.slice(top.pathname.length).split('/')
  try {
    // A proxy or the server may decode a path before it looks for the route, also what begins with empty segments.
    const segments = below.flatMap(segment => decodeURIComponent(segment).split(/[/\\]/)).filter(Boolean)
    return segments[0] === undefined ? [] : [segments[0].toLowerCase(), ...segments.slice(1)]
  } catch {
    return null
  }
}

/** Whether two addresses lead to the same server. `http` and `https` on their own ports are one: one redirects to the other. */
function isSameServer(a: URL, b: URL): boolean {
  const [hostA, hostB] = [hostOf(a), hostOf(b)]
  const isOneHost = hostA === hostB || (isLoopback(hostA) && isLoopback(hostB))
  return isOneHost && (a.port === b.port || (isWeb(a) && isWeb(b)))
}

const isWeb = ({ port }: URL): boolean => port === '' || port === '80' || port === '443'
/** The parser has made one form of other letters, of IDN and of the notations of IPv4. A name may end with a dot. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/(?<!\.)\.+$/, '')
/** Whether only programs of the same machine reach a server at this address. */
export function isLocalAddress(address: string): boolean {
  const url = parse(address)
  return url !== null && isLoopback(hostOf(url))
}

const isLoopback = (host: string): boolean =>
  /^(?:localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|\[::1?\]|\[::ffff:(?:7f[\da-f]{2}:[\da-f]{1,4}|0:0)\])$/.test(
    host
  )
