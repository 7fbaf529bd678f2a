/*
 * Which server a stored token belongs to. A checkout may name any server (`svc.config.json`, `.env.local`), so a token
 * from the global file is sent only to the origin that it was stored for: `tokenOrigin` and `projectTokenOrigin` there.
 * A token stored without one belongs to the `serverUrl` of the same file, or to the default address.
 */
import type { GlobalConfig } from './home.js'

/** Where `svc serve` listens if nothing says otherwise; import rule 3 (§4.13). */
export const defaultServerUrl = 'http://127.0.0.1:5431'

/** A token and what it may be used for. */
export interface BearerToken {
  /** The secret. Never part of an error. */
  value: string
  /** Says to a person where it comes from: `--token`, a file's path. */
  from: string
  /** The only origin that it may be sent to; null: the user gave it with the command, which decides. */
  origin: string | null
}

/** Scheme, host and port of an address: paths below one origin are one server. A text that is no address is itself. */
export function originOf(address: string): string {
  try {
    return new URL(address).origin
  } catch {
    return address
  }
}

/** Whether a token may be sent to a server. */
export function maySend(token: Pick<BearerToken, 'origin'>, address: string): boolean {
  return token.origin === null || token.origin === originOf(address)
}

/** The origin of the global `token`. */
export function adminTokenOrigin(config: GlobalConfig): string {
  return originOf(config.tokenOrigin || config.serverUrl || defaultServerUrl)
}

/** The origin of an entry of the global `projectToken`. */
export function projectTokenOrigin(config: GlobalConfig, name: string): string {
  const stored = new Map(Object.entries(config.projectTokenOrigin ?? {})).get(name)
  return originOf(stored || config.serverUrl || defaultServerUrl)
}

/** Sets the global `token`. `serverUrl` undefined: no server is known, so the token belongs to the global one. */
export function storeAdminToken(config: GlobalConfig, token: string, serverUrl: string | undefined): void {
  config.token = token
  if (serverUrl === undefined) delete config.tokenOrigin
  else config.tokenOrigin = originOf(serverUrl)
}

/** The stored admin token of a server other than that of `token`: in `adminTokens`. */
export function adminTokenFor(config: GlobalConfig, address: string): { token: string; key: string } | undefined {
  const origin = originOf(address)
  if (config.token && adminTokenOrigin(config) === origin) return undefined
  const token = new Map(Object.entries(config.adminTokens ?? {})).get(origin)
  return token ? { token, key: `adminTokens "${origin}"` } : undefined
}

/** Adds the admin token of a server: as the global `token` if that is free or of this server, else in `adminTokens`. */
export function addAdminToken(config: GlobalConfig, token: string, serverUrl: string): void {
  const origin = originOf(serverUrl)
  const isFirst = !config.token || adminTokenOrigin(config) === origin
  removeOther(config, origin)
  if (isFirst) storeAdminToken(config, token, serverUrl)
  else config.adminTokens = { ...config.adminTokens, [origin]: token }
}

/** Removes every stored token of a server. Returns what they were: `admin token`, `deploy token of <project>`. */
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

function without(map: Record<string, string> | undefined, names: readonly string[]): Record<string, string> | undefined {
  const rest = Object.entries(map ?? {}).filter(([name]) => !names.includes(name))
  return rest.length === 0 ? undefined : Object.fromEntries(rest)
}

function setOrDelete(config: GlobalConfig, key: 'adminTokens' | 'projectToken' | 'projectTokenOrigin', map: Record<string, string> | undefined): void {
  if (map === undefined) delete config[key]
  else config[key] = map
}

/** Sets entries of the global `projectToken`, as `storeAdminToken` does. */
export function storeProjectTokens(config: GlobalConfig, tokens: Record<string, string>, serverUrl: string | undefined): void {
  const names = Object.keys(tokens)
  config.projectToken = { ...config.projectToken, ...tokens }
  const others = Object.entries(config.projectTokenOrigin ?? {}).filter(([name]) => !names.includes(name))
  const own = serverUrl === undefined ? [] : names.map(name => [name, originOf(serverUrl)] as const)
  const origins = Object.fromEntries([...others, ...own])
  if (Object.keys(origins).length > 0) config.projectTokenOrigin = origins
  else delete config.projectTokenOrigin
}
