/*
 * Where probes may connect to: the machine itself, and what the setting `gate_hosts` names. A check of a deployment is
 * not a port scanner. The address that was checked is the one that is connected to, so that a name cannot lead
 * elsewhere between the check and the connection.
 */

import { lookup as systemLookup } from 'node:dns/promises'
import { BlockList, connect, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import * as http from 'node:http'
import * as https from 'node:https'
import type { SecureContext } from 'node:tls'
import { withAnySignal } from '../../base/async.js'
import { reasonOf } from '../../base/errors.js'
import { sendOnce } from './post.js'

/** A permitted address. */
export interface Reachable {
  address: string
  family: 4 | 6
  /** Whether it is a loopback address. */
  isLoopback: boolean
}

/** Names and addresses of the setting, and how names are looked up. */
export interface ReachOptions {
  /** Host names, IP addresses and CIDR blocks. */
  hosts: readonly string[]
  lookup?: (host: string) => Promise<Array<{ address: string; family: number }>>
}

/** A refused or unknown host. The message is a sentence without a period. */
class Unreachable extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'Unreachable'
  }
}

const lookupAll = (host: string) => systemLookup(host, { all: true, verbatim: true })

/**
 * Runs a probe within its time limit, which also covers a lookup that cannot be cancelled. Returns `late` after it, and the
 * message of `Unreachable` as `failed` says. Rejects only with the signal's reason.
 */
async function within<T>(
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  { late, failed }: { late: T; failed: (message: string) => T },
  work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  try {
    return await withAnySignal({ signals: [signal], withinMs: timeoutMs }, own => {
      const aborted = new Promise<never>((_, reject) => {
        if (own.aborted) reject(own.reason as Error)
        own.addEventListener('abort', () => reject(own.reason as Error), { once: true })
      })
      return Promise.race([work(own), aborted])
    })
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof Unreachable) return failed(error.message)
    if ((error as Error).name === 'TimeoutError') return late
    throw error
  }
}

/** Returns the address to connect to for a host. Throws `Unreachable` if it is unknown or not permitted. */
export async function reach(host: string, { hosts, lookup = lookupAll }: ReachOptions): Promise<Reachable> {
  const name = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  const literal = isIP(name)
  const found = literal === 0 ? await lookup(name).catch(() => []) : [{ address: name, family: literal }]
  if (found.length === 0) throw new Unreachable(`"${name}" is not a known host`)
  const isNamed = hosts.some(item => item.toLowerCase() === name)
  const allowed = blockListOf(hosts)
  const permitted = found.find(({ address }) => isNamed || isOwn(address) || isListed(allowed, address))
  if (permitted === undefined) {
    throw new Unreachable(`"${name}" is neither this machine nor in the setting gate_hosts`)
  }
  const { address, family } = permitted
  return { address, family: family === 6 ? 6 : 4, isLoopback: isListed(loopback, address) }
}

/** Whether an entry of the setting is an IP address or a CIDR block. */
export function isAddressBlock(item: string): boolean {
  const [address = '', bits, ...rest] = item.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

function isOwn(address: string): boolean {
  if (isListed(loopback, address)) return true
  const own = Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])
  return own.some(each => each.address === address)
}

function blockListOf(hosts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const item of hosts.filter(isAddressBlock)) {
    const [address = '', bits] = item.split('/')
    const kind = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, kind)
    else list.addSubnet(address, Number(bits), kind)
  }
  return list
}

function isListed(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/*
 * One HTTP request that tests whether a service works. It follows no redirects, reads at most 64 KiB of the body, keeps
 * no connection, and ends after its time limit whatever the server does.
 */

/** A request to send. */
export interface HttpProbe extends ReachOptions {
  url: string
  header?: Readonly<Record<string, string>>
  /** Whether the body is read. */
  readsBody: boolean
  timeoutMs: number
  /** The authorities to trust. Default: those of Node. */
  secureContext?: SecureContext | undefined
  signal: AbortSignal
}

/** The answer to a request, or the reason why there is none. */
export type HttpAnswer = { status: number; body: string } | { error: string }

/** Maximum number of bytes of a body that are read. */
export const maxBodyBytes = 64 * 1024

/** Sends a GET request. Rejects only with the signal's reason. */
export async function probeHttp(probe: HttpProbe): Promise<HttpAnswer> {
  const url = new URL(probe.url)
  const late = { error: `no answer within ${probe.timeoutMs / 1000} s` }
  return within<HttpAnswer>(probe, { late, failed: error => ({ error }) }, async signal => {
    const place = await reach(url.hostname, probe)
    signal.throwIfAborted()
    return request(url, { ...probe, signal }, place)
  })
}

async function request(
  url: URL,
  { header, readsBody, timeoutMs, secureContext, signal }: HttpProbe,
  { address, family, isLoopback }: Reachable
): Promise<HttpAnswer> {
  const name = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const isSecure = url.protocol === 'https:'
  const call = (isSecure ? https : http).request({
    method: 'GET',
    host: address,
    family,
    port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
    path: `${url.pathname}${url.search}`,
    agent: false,
    setHost: false,
    headers: { host: url.host, 'user-agent': 'svc-gate', accept: '*/*', connection: 'close', ...header },
    // A service on this machine often has a certificate for its public name, or one of its own.
    ...(secureContext && { secureContext }),
    ...(isSecure && { rejectUnauthorized: !isLoopback, ...(isIP(name) === 0 && { servername: name }) })
  })
  const limits = { maxBytes: readsBody ? maxBodyBytes - 1 : 0, limitMs: timeoutMs, signal }
  const { head, bytes, why } = await sendOnce(call, '', limits)
  if (why === 'closed') return { error: 'the connection was closed' }
  if (typeof why !== 'string') return { error: reasonOf(why) }
  return { status: head?.statusCode as number, body: bytes.subarray(0, maxBodyBytes).toString('utf8') }
}

/* One TCP connection that tests whether a service listens. Nothing is sent. */

/** A connection to open. */
export interface TcpProbe extends ReachOptions {
  host: string
  port: number
  timeoutMs: number
  signal: AbortSignal
}

/** Opens and closes a connection. Returns null, or why that failed. Rejects only with the signal's reason. */
export async function probeTcp(probe: TcpProbe): Promise<string | null> {
  const late = `no connection within ${probe.timeoutMs / 1000} s`
  return within<string | null>(probe, { late, failed: message => message }, async signal => {
    const { address, family } = await reach(probe.host, probe)
    signal.throwIfAborted()
    return open({ host: address, port: probe.port, family }, signal)
  })
}

function open(place: { host: string; port: number; family: number }, signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const socket = connect(place)
    const end = (settle: () => void): void => {
      signal.removeEventListener('abort', abort)
      settle()
      socket.destroy()
    }
    const abort = (): void => end(() => reject(signal.reason as Error))
    signal.addEventListener('abort', abort, { once: true })
    socket.on('connect', () => end(() => resolve(null)))
    socket.on('error', error => end(() => resolve(reasonOf(error))))
  })
}
