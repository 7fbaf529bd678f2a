import { parseUrl } from '../../base/parse-url.js'
import { Refusal } from '../../base/refusal.js'
import { matchesCidr, parseCidr } from '../core/client-address.js'

/** Environment variables, by name. */
export type ProxyEnvironment = Readonly<Record<string, string | undefined>>

/**
 * Returns the proxy for requests to `target`, or null if there is none. Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
 * and `NO_PROXY` in either case; lower case wins, as in curl. There is no standard, so this implements what curl and
 * Go share.
 */
export function proxyFor(target: URL, env: ProxyEnvironment): URL | null {
  const name = target.protocol === 'https:' ? 'https_proxy' : 'http_proxy'
  const value = read(env, name) ?? read(env, 'all_proxy')
  if (value === undefined || isExempt(target, read(env, 'no_proxy') ?? '')) return null
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`
  const proxy = parseUrl(text)
  if (proxy === null || !/^https?:$/.test(proxy.protocol)) {
    const field = name.toUpperCase()
    const sentence = `${field} is invalid: the address of a proxy must begin with http:// or https://`
    throw new Refusal('usage', 'usage', sentence, { field })
  }
  return proxy
}

function read(env: ProxyEnvironment, name: string): string | undefined {
  return env[name] || env[name.toUpperCase()] || undefined
}

/**
 * Returns whether NO_PROXY lists the target. An entry is `*`, a name, which includes all names below it
 * (`.example.com`, `*.example.com`, `example.com`), an IP address, or a CIDR block; each may have a port. Addresses of
 * names are not looked up.
 */
function isExempt(target: URL, list: string): boolean {
  const host = bare(target.hostname)
  const port = target.port || (target.protocol === 'https:' ? '443' : '80')
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
    .some(entry => {
      const [name, wantedPort] = splitPort(entry)
      return (wantedPort === null || wantedPort === port) && isWithin(host, name)
    })
}

/** Splits the port off an entry. An IPv6 address with a port is in brackets. */
function splitPort(entry: string): [name: string, port: string | null] {
  const [, bracketed, plain, port] = /^(?:(\[[^\]]*\](?:\/\d+)?)|([^:]*))(?::(\d+))?$/.exec(entry) ?? []
  return [bare(bracketed ?? plain ?? entry), port ?? null]
}

function isWithin(host: string, name: string): boolean {
  if (name === '*') return true
  const block = parseCidr(name)
  if (block !== undefined) return matchesCidr(host, [block])
  const domain = name.replace(/^\*?\./, '')
  return domain !== '' && (host === domain || host.endsWith(`.${domain}`))
}

function bare(host: string): string {
  return host.toLowerCase().replace(/[[\]]/g, '').replace(/\.$/, '')
}
