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
