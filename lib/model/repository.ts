import { parseUrl } from '../base/text.js'

/*
 * Addresses of git repositories: https://host/path, ssh://host/path, and the scp-like host:path (git-clone(1), "GIT
 * URLS").
 */

/** The host and path of a repository: `example.org` and `team/shop`. */
export interface RepositoryPlace {
  host: string
  path: string
}

const scpLike = /^(?:[^/]*@)?(\[[^\]/@]+\]|[^/:@\s]{2,}):(?!\/\/|:)([^]+)$/

/**
 * Returns the address without user name, password, query and fragment, which may be credentials. Returns null if
 * another machine could not use the rest: an empty text, a local path, an unknown form.
 */
export function withoutCredentials(address: string): string | null {
  const given = address.trim()
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(given)?.[1]?.toLowerCase()
  if (scheme !== undefined) return ofScheme(given, scheme)
  const [, host, path] = scpLike.exec(given) ?? []
  if (host === undefined || path === undefined || /[\\@\r\n\u2028\u2029]/.test(path)) return null
  return `${host}:${path.replace(/[?#][^]*$/, '')}`
}

function ofScheme(given: string, scheme: string): string | null {
  if (!['http', 'https', 'ssh', 'git', 'git+ssh', 'ssh+git'].includes(scheme)) return null
  const url = parseUrl(given)
  if (url === null || url.host === '') return null
  // The setters of URL do nothing for some schemes.
  return `${scheme}://${url.host}${url.pathname.replace(/(?<!\/)\/+$/, '')}`
}

/** Returns the host and the path of an address that `withoutCredentials` returned; null if it does not have both. */
export function repositoryPlace(address: string): RepositoryPlace | null {
  const isUrl = address.includes('://')
  const [, host, path] = (isUrl ? /^[^:]+:\/\/([^/]+)\/(.+)$/ : scpLike).exec(address) ?? []
  if (host === undefined || path === undefined) return null
  const trimmed = path.replace(/^\/+|(?<!\/)\/+$/g, '').replace(/\.git$/, '')
  if (trimmed === '' || trimmed.split('/').some(part => part === '' || part === '.' || part === '..')) return null
  // A port belongs to ssh or to the web server, which may not be the same.
  return { host: host.toLowerCase(), path: trimmed }
}
