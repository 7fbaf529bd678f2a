import { Refusal } from '../../base/refusal.js'

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

function parseUrl(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

function read(env: ProxyEnvironment, name: string): string | undefined {
  return env[name] || env[name.toUpperCase()] || undefined
}

/**
 * Returns whether NO_PROXY lists the target. An entry is `*`, a name, which includes all names below it
 * (`.example.com`, `example.com`), or an IP address; each may have a port.
 */
function isExempt(target: URL, list: string): boolean {
  const host = bare(target.hostname)
  const port = target.port || (target.protocol === 'https:' ? '443' : '80')
  return list
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
    .some(entry => {
      if (entry === '*') return true
      const [, name = '', wantedPort] = /^(\[[^\]]*\]|[^:]*(?::[^:]*:.*)?)(?::(\d+))?$/.exec(entry) ?? []
      if (wantedPort !== undefined && wantedPort !== port) return false
      const domain = bare(name).replace(/^\*?\./, '')
      return domain !== '' && (host === domain || host.endsWith(`.${domain}`))
    })
}

function bare(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
}
