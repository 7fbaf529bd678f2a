import { usage } from './args.js'
import type { Host } from './command.js'

/**
 * The proxy for requests to `target`, from `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` in either case (the
 * lower one wins, as in curl); null: none. There is no standard; the common part of curl's and Go's reading is taken.
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
      `${name.toUpperCase()} cannot be used: a proxy's address begins with http:// or https://`
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

/** `*`, names with everything below them (`.example.com`, `example.com`), addresses, each perhaps with a port. */
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
