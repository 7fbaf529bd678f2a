import { usage } from '../args.js'
import type { Host } from '../host.js'

/**
 * Returns the proxy for requests to `target`, or null if there is none. Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`
 * and `NO_PROXY` in either case; lower case wins, as in curl. There is no standard, so this implements what curl and
 * Go share.
 */
export function proxyFor(target: URL, env: Host['env']): URL | null {
  const name = target.protocol === 'https:' ? 'https_proxy' : 'http_proxy'
  const value = read(env, name) ?? read(env, 'all_proxy')
  if (value === undefined || isExempt(target, read(env, 'no_proxy') ?? '')) return null
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`
  const proxy = parseUrl(text)
  if (proxy === null || !/^https?:$/.test(proxy.protocol)) {
    throw usage(
      name.toUpperCase(),
      `${name.toUpperCase()} is invalid: the address of a proxy must begin with http:// or https://`
    )
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

function read(env: Host['env'], name: string): string | undefined {
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
