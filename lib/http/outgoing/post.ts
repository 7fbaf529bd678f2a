/*
 * Sends one POST request and reads its answer: the outgoing side of the server. It follows no redirects, uses no proxy,
 * and keeps no connection. The time limit covers everything, from the lookup to the last byte of the answer.
 *
 * The head of an answer decides. The body is read so that the receiver can finish its work, up to `maxAnswerBytes`. If
 * the body does not end in time, it is cut off and the answer is still valid, because sending the message again would
 * duplicate it.
 */
import { lookup as systemLookup, type LookupAddress, type LookupOptions, Resolver } from 'node:dns'
import { readFile } from 'node:fs/promises'
import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SecureContext } from 'node:tls'

/** The message to send. */
interface PostOptions {
  headers: Record<string, string>
  body: string
  limitMs: number
  /**
   * Whether the process may end during the request. A lookup in progress still keeps it running; `signal` ends that.
   */
  isIdle?: boolean
  /** The authorities to trust. Default: those of Node. */
  secureContext?: SecureContext | undefined
  signal: AbortSignal
}

/**
 * The result of a request. `text` is the body if it ended in time and within the limit, otherwise null. `retryAfterMs` is
 * the time that the receiver asks to wait before the next request (RFC 9110 §10.2.3).
 */
export type Posted =
  | { outcome: 'answered'; status: number; text: string | null; retryAfterMs?: number }
  | { outcome: 'timeout' }
  /** `code`: the error code of the system, of TLS, or of the parser. `message` replaces it if nothing was sent. */
  | { outcome: 'network'; code: string; message?: string }

const maxAnswerBytes = 64 * 1024

/** Sends `body` as JSON. Rejects only with the signal's reason. */
export async function post(
  url: URL,
  { headers, body, limitMs, isIdle = false, secureContext, signal }: PostOptions
): Promise<Posted> {
  signal.throwIfAborted()
  const length = String(Buffer.byteLength(body))
  const { lookup, cancel } = createLookup()
  const request = (url.protocol === 'https:' ? https : http).request(url, {
    method: 'POST',
    agent: false,
    ...(secureContext && { secureContext }),
    lookup,
    headers: { 'content-type': 'application/json', 'content-length': length, connection: 'close', ...headers }
  })
  if (isIdle) request.on('socket', socket => socket.unref())
  const limits = { maxBytes: maxAnswerBytes, limitMs, isIdle, signal }
  const { head, bytes, why } = await sendOnce(request, body, limits).finally(cancel)
  if (head !== null) {
    const known = { outcome: 'answered', status: head.statusCode as number } as const
    return {
      ...known,
      text: why === 'whole' ? bytes.toString('utf8') : null,
      ...retryAfter(head.headers['retry-after'])
    }
  }
  if (why === 'timeout') return { outcome: 'timeout' }
  return { outcome: 'network', code: typeof why === 'string' ? 'ECONNRESET' : (why.code ?? 'UNKNOWN') }
}

/** How a request ended. */
interface Ended {
  /** Null if no answer began. */
  head: http.IncomingMessage | null
  /** What was read of the body. */
  bytes: Buffer
  /** `cut`: there is more than was wanted. */
  why: 'whole' | 'cut' | 'timeout' | 'closed' | NodeJS.ErrnoException
}

interface OnceLimits {
  /** Maximum size of the body; with 0, the head ends the request. */
  maxBytes: number
  /** Time from now to the last byte. */
  limitMs: number
  /** Whether the process may end during the request. */
  isIdle?: boolean
  signal: AbortSignal
}

/** Sends a request, reads its answer, and destroys it. Rejects only with the signal's reason. */
export function sendOnce(
  request: http.ClientRequest,
  body: string,
  { maxBytes, limitMs, isIdle = false, signal }: OnceLimits
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    let head: http.IncomingMessage | null = null
    const pieces: Buffer[] = []
    let size = 0
    const leave = (): void => {
      clearTimeout(limit)
      signal.removeEventListener('abort', abort)
      request.destroy()
    }
    const end = (why: Ended['why']): void => {
      resolve({ head, bytes: Buffer.concat(pieces), why })
      leave()
    }
    const abort = (): void => {
      reject(signal.reason as Error)
      leave()
    }
    const limit = setTimeout(end, limitMs, 'timeout')
    if (isIdle) limit.unref()
    signal.addEventListener('abort', abort, { once: true })
    request.on('error', end)
    request.on('close', () => end('closed'))
    request.on('response', response => {
      head = response
      if (maxBytes === 0) return end('cut')
      response.on('error', end)
      response.on('data', (piece: Buffer) => {
        pieces.push(piece)
        size += piece.length
        if (size > maxBytes) end('cut')
      })
      response.on('end', () => end('whole'))
    })
    request.end(body)
  })
}

/** Reads seconds, or a date, which is compared with the clock of this machine. */
function retryAfter(text = ''): { retryAfterMs?: number } {
  const ms = /^\s*\d{1,9}\s*$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isNaN(ms) ? {} : { retryAfterMs: Math.max(0, ms) }
}

/*
 * Looks up names in a way that can be cancelled. The system's own lookup (getaddrinfo) cannot: it occupies one of a
 * few threads, and the process cannot even exit while it waits for a silent DNS server. So these are asked in order:
 *
 *   the hosts file   names in it are found without asking a server
 *   DNS              asked directly, over sockets that can be closed
 *   the system       only if DNS has answered and does not know the name: search domains, mDNS, other sources
 */

/** A lookup function as `http.request` and `net.connect` call it. */
type LookupFunction = (
  name: string,
  options: LookupOptions,
  done: (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void
) => void

/** A lookup that can be cancelled. */
interface Lookup {
  lookup: LookupFunction
  /** Fails all pending lookups with `ECANCELLED`, so that nothing keeps the process running. */
  cancel(): void
}

/** Where names are looked up. */
export interface LookupSources {
  /** DNS servers as `address:port`. Default: those of the system. */
  servers?: string[]
  /** Path of the hosts file, or null for none. */
  hostsFile?: string | null
}

const systemHostsFile = process.platform === 'win32' ? null : '/etc/hosts'
/** RFC 8305 §3: how long to wait for the second address family after the first one has answered. */
const otherFamilyMs = 50
/** Errors of a silent DNS server. Asking the system would only wait for the same server. */
const silent = ['ETIMEOUT', 'ECANCELLED']

/** Creates a lookup that can be cancelled. */
export function createLookup({ servers, hostsFile = systemHostsFile }: LookupSources = {}): Lookup {
  const resolver = new Resolver()
  if (servers !== undefined) resolver.setServers(servers)
  let isCancelled = false

  async function find(name: string): Promise<LookupAddress[]> {
    const named = hostsFile === null ? [] : await readHosts(hostsFile, name)
    if (isCancelled) throw cancelled()
    if (named.length > 0) return named
    const asked = await askBoth(resolver, name)
    const found = asked.flatMap(({ addresses }) => addresses)
    if (found.length > 0) return found
    const error = asked.map(({ error }) => error).find(error => error !== null && silent.includes(error.code ?? ''))
    if (isCancelled) throw cancelled()
    if (error) throw error
    return askSystem(name)
  }

  return {
    lookup(name, options, done) {
      find(name)
        .then(addresses => choose(addresses, options.family))
        .then(
          ([first, ...more]) => {
            if (first === undefined) done(notFound(name), [])
            else if (options.all) done(null, [first, ...more])
            else done(null, first.address, first.family)
          },
          error => done(error as NodeJS.ErrnoException, [])
        )
    },
    cancel() {
      isCancelled = true
      resolver.cancel()
    }
  }
}

interface Asked {
  addresses: LookupAddress[]
  error: NodeJS.ErrnoException | null
}

/**
 * Asks for both address families. Some servers never answer for one of them; if the other is known, it is not waited
 * for.
 */
async function askBoth(resolver: Resolver, name: string): Promise<Asked[]> {
  const answered: Asked[] = []
  const asking = ([4, 6] as const).map(async family => {
    const asked = await ask(resolver, name, family)
    answered.push(asked)
    return asked
  })
  const { addresses } = await Promise.race(asking)
  if (addresses.length === 0) return Promise.all(asking)
  await Promise.race([Promise.all(asking), sleep(otherFamilyMs, undefined, { ref: false })])
  return answered
}

/** Asks for one address family. If the name has no address of it, the other family is not affected. */
function ask(resolver: Resolver, name: string, family: 4 | 6): Promise<Asked> {
  return new Promise(resolve => {
    const done = (error: NodeJS.ErrnoException | null, found: string[]): void =>
      resolve({ addresses: error === null ? found.map(address => ({ address, family })) : [], error })
    if (family === 4) resolver.resolve4(name, done)
    else resolver.resolve6(name, done)
  })
}

function askSystem(name: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    systemLookup(name, { all: true }, (error, addresses) => (error === null ? resolve(addresses) : reject(error)))
  })
}

/** Reads hosts(5): each line has an address and its names; `#` begins a comment. */
async function readHosts(path: string, name: string): Promise<LookupAddress[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const wanted = name.toLowerCase()
  return text.split('\n').flatMap(line => {
    const [address = '', ...names] = line.replace(/#.*/, '').toLowerCase().trim().split(/\s+/)
    const family = isIP(address)
    return family !== 0 && names.includes(wanted) ? [{ address, family }] : []
  })
}

function choose(addresses: LookupAddress[], family: LookupOptions['family']): LookupAddress[] {
  const wanted = family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : (family ?? 0)
  return wanted === 0 ? addresses : addresses.filter(found => found.family === wanted)
}

function notFound(name: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`No address found for "${name}"`), { code: 'ENOTFOUND' })
}

function cancelled(): NodeJS.ErrnoException {
  return Object.assign(new Error('The lookup was cancelled'), { code: 'ECANCELLED' })
}
