/*
 * Reads and writes the configuration of a project (§2.13): `svc.config.json`, and one file per environment,
 * `svc.config.<env>.json`. Each file is complete by itself: an environment's file does not inherit from
 * `svc.config.json`.
 */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  checked,
  flag,
  list,
  maxPathLength,
  maxScriptLength,
  multiline,
  optional,
  type Read,
  readFields,
  reads,
  record
} from '../fields.js'
import { hasCode, invalid, reasonOf, Refusal } from '../errors.js'
import { closest, readText } from '../text.js'
import { replaceFile } from '../files.js'
import { type JsonObject, parseJsonObject } from './files.js'
import type { GlobalConfig } from './home.js'

/** The keys of a project's configuration file (§2.13). */
export interface ClientConfig {
  projectId: string
  outputDir?: string
  files?: string[]
  ignore?: string[]
  /** If true, the built-in ignore rules do not apply. */
  ignoreBuiltin?: boolean
  serverUrl?: string
  env?: Record<string, string>
  preDeploy?: string
  postDeploy?: string
  postDeployAsync?: boolean
}

/** A configuration file and its contents. */
export interface ProjectFile {
  path: string
  /** The environment of `svc.config.<env>.json`; null for `svc.config.json`. */
  env: string | null
  config: ClientConfig
  /** Warnings about ignored keys. */
  warnings: string[]
}

/** The result of `selectEnvironment`: a file to read, no file, or a choice that only the user can make. */
export type Selection =
  | { outcome: 'found'; env: string | null }
  | { outcome: 'none' }
  | { outcome: 'ambiguous'; environments: string[]; hasDefault: boolean }

/** The name that `--env` accepts for `svc.config.json`, unless a `svc.config.default.json` exists. */
export const plainEnvironment = 'default'

const fileMode = 0o644
const namePattern = /^svc\.config(?:\.(.+))?\.json$/
const envPattern = /^[\w-][\w.-]*$/

/** Returns the path of an environment's file; null means `svc.config.json`. Refuses an invalid name (`invalid_env`). */
export function clientConfigPath(directory: string, env: string | null): string {
  if (env !== null && !envPattern.test(env)) {
    const sentence = `--env cannot be "${env}": use only letters, digits, ".", "_" and "-", as in svc.config.<env>.json`
    throw new Refusal('usage', 'invalid_env', sentence, { field: '--env' })
  }
  return join(directory, env === null ? 'svc.config.json' : `svc.config.${env}.json`)
}

/**
 * Returns the environments that have a file in `directory`, sorted by name. Null stands for `svc.config.json` and comes
 * first.
 */
export async function listEnvironments(directory: string): Promise<Array<string | null>> {
  const names = await readdir(directory).catch(() => [])
  const environments = names.flatMap(name => {
    const match = namePattern.exec(name)
    return match && (match[1] === undefined || envPattern.test(match[1])) ? [match[1] ?? null] : []
  })
  return environments.sort((a, b) => (a === null ? -1 : b === null ? 1 : a < b ? -1 : 1))
}

/**
 * Selects the configuration file to read. If `env` is given, its file must exist (`default` is `svc.config.json`).
 * Otherwise the result is `svc.config.json`, or the only environment in the directory. If there are several
 * environments, the result is ambiguous (§4.13: push asks the user). Refuses `no_such_environment`.
 */
export async function selectEnvironment(directory: string, env: string | null): Promise<Selection> {
  const all = await listEnvironments(directory)
  const named = all.filter(name => name !== null)
  const hasDefault = named.length < all.length
  if (env !== null) {
    clientConfigPath(directory, env)
    if (named.includes(env)) return { outcome: 'found', env }
    if (env === plainEnvironment && hasDefault) return { outcome: 'found', env: null }
    const shown = (name: string | null): string =>
      `${clientConfigPath('', name)}${name === null ? ` (--env ${plainEnvironment})` : ''}`
    const there = all.map(shown).join(', ') || 'none'
    const sentence = `Cannot find svc.config.${env}.json in "${directory}". Existing configuration files: ${there}`
    throw new Refusal('not_found', 'no_such_environment', sentence, { field: '--env' })
  }
  if (named.length > 1) return { outcome: 'ambiguous', environments: named, hasDefault }
  if (hasDefault) return { outcome: 'found', env: null }
  return named.length === 1 ? { outcome: 'found', env: named[0] as string } : { outcome: 'none' }
}

/**
 * Reads and checks the file of an environment. Refuses a file that is missing or broken, or a key of the wrong type
 * (`no_client_config`, `broken_config`, `invalid_config`, `token_in_config`).
 */
export async function readClientConfig(directory: string, env: string | null): Promise<ProjectFile> {
  const path = clientConfigPath(directory, env)
  let text: string
  try {
    text = await readText(path)
  } catch (cause) {
    if (cause instanceof Refusal) throw cause
    const isMissing = hasCode(cause, 'ENOENT')
    const why = isMissing ? `${reasonOf(cause)}. Run "svc init" to create one` : reasonOf(cause)
    const sentence = `Cannot read "${path}": ${why}`
    throw new Refusal(isMissing ? 'not_found' : 'invalid', 'no_client_config', sentence, { cause })
  }
  return checkClientConfig(path, env, parseJsonObject(text, path))
}

/** Checks and writes a configuration file; an existing file is replaced as a whole. Returns its path. */
export async function writeClientConfig(directory: string, env: string | null, config: ClientConfig): Promise<string> {
  const path = clientConfigPath(directory, env)
  checkClientConfig(path, env, { ...config })
  await replaceFile(path, `${JSON.stringify(config, null, 2)}\n`, fileMode)
  return path
}

const filledText = multiline({ min: 1, max: maxPathLength, trim: true })
const texts = optional(list(filledText, { max: 10_000 }))
const script = optional(multiline({ max: maxScriptLength }))
const value = reads({ type: 'string' }, 'text', (given, field) => {
  if (typeof given === 'string') return given
  throw invalid(field, `"${field}" must be a string: write it in quotes`)
})

const shape = {
  projectId: optional(filledText),
  outputDir: optional(filledText),
  files: texts,
  ignore: texts,
  ignoreBuiltin: optional(flag),
  serverUrl: optional(
    checked(filledText, given =>
      parseServerUrl(given) === null ? 'expected an address like "https://deploy.example.com"' : null
    )
  ),
  env: optional(record(value, name => (/^[A-Za-z_]\w*$/.test(name) ? null : 'is not a valid variable name'))),
  preDeploy: script,
  postDeploy: script,
  postDeployAsync: optional(flag)
} satisfies Record<keyof ClientConfig, Read<unknown>>

const secretKeys = /^(?:token|deploy_?token|project_?token|admin_?token|svc_(?:deploy_)?token)$/i

const secretAdvice =
  'the file is shared and must not contain a deploy token; ' +
  'keep it in .env.local (SVC_DEPLOY_TOKEN) or in the global configuration ("svc config:set token -")'

function checkClientConfig(path: string, env: string | null, object: JsonObject): ProjectFile {
  // Without a field: a command would name its option instead of the key (`cli/hints.ts`).
  const refuse = (code: string, sentence: string): Refusal => new Refusal('invalid', code, `${path}: ${sentence}`)
  const keys = Object.keys(object)
  const secret = keys.find(key => secretKeys.test(key))
  if (secret !== undefined) throw refuse('token_in_config', `"${secret}" must not be here: ${secretAdvice}`)
  const known = Object.fromEntries(Object.entries(object).filter(([key]) => Object.hasOwn(shape, key)))
  try {
    // An unknown key is a warning here: the commands that pack refuse it with the same sentence.
    readFields(known, shape)
  } catch (error) {
    throw error instanceof Refusal ? refuse('invalid_config', error.message) : error
  }
  if (object['projectId'] === undefined) {
    const near = keys.find(key => !Object.hasOwn(known, key) && meantBy(key) === 'projectId')
    const advice = near === undefined ? 'Run "svc list" to find the id' : `Write "projectId" in place of "${near}"`
    throw refuse('invalid_config', `projectId is missing. ${advice}`)
  }
  const warnings = keys
    .filter(key => key !== '$schema' && !Object.hasOwn(known, key))
    .map(key => `${path}: unknown key "${key}"${didYouMean(key)}`)
  return { path, env, config: object as unknown as ClientConfig, warnings }
}

/** Returns the key that was probably meant. */
function meantBy(key: string): string | undefined {
  const plain = (name: string): string => name.toLowerCase().replace(/[^a-z]|s$/g, '')
  const names = Object.keys(shape)
  return names.find(known => plain(known) === plain(key)) ?? closest(key, names)
}

function didYouMean(key: string): string {
  const meant = meantBy(key)
  return meant === undefined ? '' : `. Did you mean "${meant}"?`
}

/**
 * Returns a server's address without a trailing slash. The address may have a path, for a server behind a prefix.
 * Returns null if the text is not an http or https address, or if it has a query, a fragment or a password.
 */
export function parseServerUrl(value: string): string | null {
  let parsed: URL
  try {
    parsed = new URL(value)
  } catch {
    return null
  }
  const isPlain = parsed.search + parsed.hash + parsed.username + parsed.password === ''
  if (!isPlain || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')) return null
  return parsed.origin + parsed.pathname.replace(/(?<!\/)\/+$/, '')
}

/*
 * The server that a stored token belongs to. A checkout may name any server (`svc.config.json`, `.env.local`), so a
 * token from the global file is sent only to the origin that it was stored for. These origins are `tokenOrigin` and
 * `projectTokenOrigin` in that file. A token that was stored without an origin belongs to the `serverUrl` of the same
 * file, or to the default address.
 */

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
