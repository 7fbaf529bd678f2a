/*
 * The server that a stored token belongs to. A checkout may name any server (`svc.config.json`, `.env.local`), so a
 * token from the global file is sent only to the origin that it was stored for. These origins are `tokenOrigin` and
 * `projectTokenOrigin` in that file. A token that was stored without an origin belongs to the `serverUrl` of the same
 * file, or to the default address.
 */
import type { GlobalConfig } from './home.js'

/** The default address of `svc serve`; see import rule 3 (§4.13). */
export const defaultServerUrl = 'http://127.0.0.1:5431'

/** A token and the server that it may be sent to. */
export interface BearerToken {
  /** The token itself. It is never part of an error. */
  value: string
  /** The source of the token for a person: `--token`, or a file's path. */
  from: string
  /**
   * The only origin that the token may be sent to; null if the user gave it with the command and may send it anywhere.
   */
  origin: string | null
}

/**
 * Returns scheme, host and port of an address: all paths below one origin belong to one server. A text that is not an
 * address is returned as it is.
 */
export function originOf(address: string): string {
  try {
    return new URL(address).origin
  } catch {
    return address
  }
}

/** Returns whether a token may be sent to a server. */
export function maySend(token: Pick<BearerToken, 'origin'>, address: string): boolean {
  return token.origin === null || token.origin === originOf(address)
}

/** Returns the origin of the global `token`. */
export function adminTokenOrigin(config: GlobalConfig): string {
  return originOf(config.tokenOrigin || config.serverUrl || defaultServerUrl)
}

/** Returns the origin of an entry of the global `projectToken`. */
export function projectTokenOrigin(config: GlobalConfig, name: string): string {
  const stored = new Map(Object.entries(config.projectTokenOrigin ?? {})).get(name)
  return originOf(stored || config.serverUrl || defaultServerUrl)
}

/**
 * Sets the global `token`. If `serverUrl` is undefined, no server is known, and the token belongs to the global
 * `serverUrl`.
 */
export function storeAdminToken(config: GlobalConfig, token: string, serverUrl: string | undefined): void {
  config.token = token
  if (serverUrl === undefined) delete config.tokenOrigin
  else config.tokenOrigin = originOf(serverUrl)
}

/**
 * Returns the stored admin token of a server that `token` does not belong to, and its key in `adminTokens`. Returns
 * undefined if there is none, or if `token` belongs to this server.
 */
export function adminTokenFor(config: GlobalConfig, address: string): { token: string; key: string } | undefined {
  const origin = originOf(address)
  if (config.token && adminTokenOrigin(config) === origin) return undefined
  const token = new Map(Object.entries(config.adminTokens ?? {})).get(origin)
  return token ? { token, key: `adminTokens "${origin}"` } : undefined
}

/**
 * Stores the admin token of a server: as the global `token` if that is unset or belongs to this server, else in
 * `adminTokens`.
 */
export function addAdminToken(config: GlobalConfig, token: string, serverUrl: string): void {
  const origin = originOf(serverUrl)
  const isFirst = !config.token || adminTokenOrigin(config) === origin
  removeOther(config, origin)
  if (isFirst) storeAdminToken(config, token, serverUrl)
  else config.adminTokens = { ...config.adminTokens, [origin]: token }
}

/** Removes every stored token of a server. Returns their names: `admin token`, `deploy token of <project>`. */
export function removeTokens(config: GlobalConfig, serverUrl: string): string[] {
  const origin = originOf(serverUrl)
  const names = Object.keys(config.projectToken ?? {}).filter(name => projectTokenOrigin(config, name) === origin)
  const isGlobal = Boolean(config.token) && adminTokenOrigin(config) === origin
  const removed = isGlobal || adminTokenFor(config, origin) !== undefined ? ['admin token'] : []
  if (isGlobal) {
    delete config.token
    delete config.tokenOrigin
  }
  removeOther(config, origin)
  const keep = (map: Record<string, string> | undefined): Record<string, string> | undefined => without(map, names)
  setOrDelete(config, 'projectTokenOrigin', keep(config.projectTokenOrigin))
  setOrDelete(config, 'projectToken', keep(config.projectToken))
  return [...removed, ...names.map(name => `deploy token of ${name}`)]
}

function removeOther(config: GlobalConfig, origin: string): void {
  setOrDelete(config, 'adminTokens', without(config.adminTokens, [origin]))
}

function without(
  map: Record<string, string> | undefined,
  names: readonly string[]
): Record<string, string> | undefined {
  const rest = Object.entries(map ?? {}).filter(([name]) => !names.includes(name))
  return rest.length === 0 ? undefined : Object.fromEntries(rest)
}

function setOrDelete(
  config: GlobalConfig,
  key: 'adminTokens' | 'projectToken' | 'projectTokenOrigin',
  map: Record<string, string> | undefined
): void {
  if (map === undefined) delete config[key]
  else config[key] = map
}

/** Sets entries of the global `projectToken`. `serverUrl` works as in `storeAdminToken`. */
export function storeProjectTokens(
  config: GlobalConfig,
  tokens: Record<string, string>,
  serverUrl: string | undefined
): void {
  const names = Object.keys(tokens)
  config.projectToken = { ...config.projectToken, ...tokens }
  const others = Object.entries(config.projectTokenOrigin ?? {}).filter(([name]) => !names.includes(name))
  const own = serverUrl === undefined ? [] : names.map(name => [name, originOf(serverUrl)] as const)
  const origins = Object.fromEntries([...others, ...own])
  if (Object.keys(origins).length > 0) config.projectTokenOrigin = origins
  else delete config.projectTokenOrigin
}
