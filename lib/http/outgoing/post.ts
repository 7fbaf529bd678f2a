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

/** Parses the URL of a receiver. Returns null if it is not an HTTP URL. */
export function parseHttpUrl(text: string): URL | null {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : null
  } catch {
    return null
  }
}

/** Sends `body` as JSON. Rejects only with the signal's reason. */
export function post(
  url: URL,
  { headers, body, limitMs, isIdle = false, secureContext, signal }: PostOptions
): Promise<Posted> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return void reject(signal.reason)
    const length = String(Buffer.byteLength(body))
    const { lookup, cancel } = createLookup()
    const request = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      agent: false,
      ...(secureContext && { secureContext }),
      lookup,
      headers: { 'content-type': 'application/json', 'content-length': length, connection: 'close', ...headers }
    })
    let answer: Posted | undefined

    const end = (posted: Posted): void => {
      clearTimeout(limit)
      signal.removeEventListener('abort', abort)
      resolve(posted)
      cancel()
      request.destroy()
    }
    const abort = (): void => {
      clearTimeout(limit)
      reject(signal.reason)
      cancel()
      request.destroy()
    }
    const limit = setTimeout(() => end(answer ?? { outcome: 'timeout' }), limitMs)
    signal.addEventListener('abort', abort, { once: true })
    if (isIdle) {
      limit.unref()
      request.on('socket', socket => socket.unref())
    }

    request.on('error', (error: NodeJS.ErrnoException) =>
      end(answer ?? { outcome: 'network', code: error.code ?? 'UNKNOWN' })
    )
    request.on('close', () => end(answer ?? { outcome: 'network', code: 'ECONNRESET' }))
    request.on('response', response => {
      const status = response.statusCode as number
      const chunks: Buffer[] = []
      let bytes = 0
      const known = { outcome: 'answered', status, ...retryAfter(response.headers['retry-after']) } as const
      answer = { ...known, text: null }
      response.on('error', () => end(answer as Posted))
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        bytes += chunk.length
        if (bytes > maxAnswerBytes) end(answer as Posted)
      })
      response.on('end', () => end({ ...known, text: Buffer.concat(chunks).toString('utf8') }))
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
