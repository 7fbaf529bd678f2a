/*
 * The project's own configuration (§2.13): `svc.config.json`, and one file per environment, `svc.config.<env>.json`.
 * Each stands by itself; an environment's file is not laid over the other one.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { parseJsonObject, type JsonObject } from './json.js'
import { replaceFile } from './replace-file.js'

/** The keys of §2.13, as they stand in the file. */
export interface ClientConfig {
  projectId: string
  outputDir?: string
  files?: string[]
  ignore?: string[]
  /** true: the built-in ignore rules do not apply. */
  ignoreBuiltin?: boolean
  serverUrl?: string
  env?: Record<string, string>
  preDeploy?: string
  postDeploy?: string
  postDeployAsync?: boolean
}

/** A configuration file that was read. */
export interface ProjectFile {
  path: string
  /** Of `svc.config.<env>.json`; null: `svc.config.json`. */
  env: string | null
  config: ClientConfig
  /** Sentences about what was read past: keys that mean nothing. */
  warnings: string[]
}

/** What `selectEnvironment` found: a file to read, none at all, or a choice that only the user can make. */
export type Selection =
  | { outcome: 'found'; env: string | null }
  | { outcome: 'none' }
  | { outcome: 'ambiguous'; environments: string[]; hasDefault: boolean }

/** What `--env` calls `svc.config.json`, unless a `svc.config.default.json` exists. */
export const plainEnvironment = 'default'

const fileMode = 0o644
const namePattern = /^svc\.config(?:\.(.+))?\.json$/
const envPattern = /^[\w-][\w.-]*$/

/** The path of the file of an environment, or of `svc.config.json`. Refuses a name that is no plain word. */
export function clientConfigPath(directory: string, env: string | null): string {
  if (env !== null && !envPattern.test(env)) {
    const sentence = `--env cannot be "${env}": only letters, digits, ".", "_" and "-", as in svc.config.<env>.json`
    throw new Refusal('usage', 'invalid_env', sentence, { field: '--env' })
  }
  return join(directory, env === null ? 'svc.config.json' : `svc.config.${env}.json`)
}

/** The environments that have a file in `directory`, in order of name; null among them is `svc.config.json`, first. */
export async function listEnvironments(directory: string): Promise<Array<string | null>> {
  const names = await readdir(directory).catch(() => [])
  const environments = names.flatMap(name => {
    const match = namePattern.exec(name)
    return match && (match[1] === undefined || envPattern.test(match[1])) ? [match[1] ?? null] : []
  })
  return environments.sort((a, b) => (a === null ? -1 : b === null ? 1 : a < b ? -1 : 1))
}

/**
 * Which file is meant: the one of `env`, which must exist (`default` is `svc.config.json`); without it `svc.config.json`,
 * or the only environment there is. Several environments and no `env` are ambiguous (§4.13: push asks).
 */
export async function selectEnvironment(directory: string, env: string | null): Promise<Selection> {
  const all = await listEnvironments(directory)
  const named = all.filter(name => name !== null)
  const hasDefault = named.length < all.length
  if (env !== null) {
    clientConfigPath(directory, env)
    if (named.includes(env)) return { outcome: 'found', env }
    if (env === plainEnvironment && hasDefault) return { outcome: 'found', env: null }
    const shown = (name: string | null): string => `${clientConfigPath('', name)}${name === null ? ` (--env ${plainEnvironment})` : ''}`
    const there = all.map(shown).join(', ') || 'no svc.config.json at all'
    const sentence = `there is no svc.config.${env}.json in ${directory}: there is ${there}`
    throw new Refusal('not_found', 'no_such_environment', sentence, { field: '--env' })
  }
  if (named.length > 1) return { outcome: 'ambiguous', environments: named, hasDefault }
  if (hasDefault) return { outcome: 'found', env: null }
  return named.length === 1 ? { outcome: 'found', env: named[0] as string } : { outcome: 'none' }
}

/** Reads and checks the file of an environment. Refuses what is missing, broken or of the wrong type, by file and key. */
export async function readClientConfig(directory: string, env: string | null): Promise<ProjectFile> {
  const path = clientConfigPath(directory, env)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    const why = isMissing ? 'there is no such file; "svc init" writes one' : (cause as Error).message
    const sentence = `${path} could not be read: ${why}`
    throw new Refusal(isMissing ? 'not_found' : 'invalid', 'no_client_config', sentence, { cause })
  }
  return checkClientConfig(path, env, parseJsonObject(text, path))
}

/** Writes a new file, or a whole one in place of the old. */
export async function writeClientConfig(directory: string, env: string | null, config: ClientConfig): Promise<string> {
  const path = clientConfigPath(directory, env)
  checkClientConfig(path, env, { ...config })
  await replaceFile(path, `${JSON.stringify(config, null, 2)}\n`, fileMode)
  return path
}

/** A value's complaint, "" where it is right; a complaint may begin with `[2]` or `.KEY` to say where. */
type Check = (value: unknown) => string

const text: Check = value => (typeof value === 'string' ? '' : ' must be a text')
const filledText: Check = value =>
  typeof value === 'string' && value.trim() !== '' ? '' : ' must be a text that is not empty'
const flag: Check = value => (typeof value === 'boolean' ? '' : ' must be true or false')
const texts: Check = value => {
  if (!Array.isArray(value)) return ' must be a list of texts'
  const at = value.findIndex(item => filledText(item) !== '')
  return at === -1 ? '' : `[${at}]${filledText(value[at])}`
}
const textMap: Check = value => {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return ' must be an object of texts'
  const wrong = Object.entries(value).find(([name, item]) => !/^[A-Za-z_]\w*$/.test(name) || typeof item !== 'string')
  if (wrong === undefined) return ''
  const [name, item] = wrong
  return typeof item === 'string' ? `.${name} is no name of a variable` : `.${name} must be a text: write it in quotes`
}
const url: Check = value => {
  const isUrl = typeof value === 'string' && parseServerUrl(value) !== null
  return isUrl ? '' : ' must be an address like "https://deploy.example.com"'
}

const checks: Record<keyof ClientConfig, Check> = {
  projectId: filledText,
  outputDir: filledText,
  files: texts,
  ignore: texts,
  ignoreBuiltin: flag,
  serverUrl: url,
  env: textMap,
  preDeploy: text,
  postDeploy: text,
  postDeployAsync: flag
}

const secretKeys = /^(?:token|deploy_?token|project_?token|admin_?token|svc_(?:deploy_)?token)$/i

const secretAdvice =
  'the file is shared and must not contain a deploy token; ' +
  'keep it in .env.local (SVC_DEPLOY_TOKEN) or in the global configuration ("svc config:set token -")'

function checkClientConfig(path: string, env: string | null, object: JsonObject): ProjectFile {
  const refuse = (code: string, key: string, sentence: string): Refusal =>
    new Refusal('invalid', code, `${path}: ${sentence}`, { field: key })
  const warnings: string[] = []
  for (const [key, value] of Object.entries(object)) {
    if (secretKeys.test(key)) throw refuse('token_in_config', key, `"${key}" must not be here: ${secretAdvice}`)
    const check = Object.hasOwn(checks, key) ? checks[key as keyof ClientConfig] : undefined
    const complaint = check?.(value) ?? ''
    if (complaint !== '') throw refuse('invalid_config', key, key + complaint)
    const isUnknown = check === undefined && key !== '$schema'
    if (isUnknown) warnings.push(`${path}: "${key}" means nothing here${didYouMean(key)}`)
  }
  if (object['projectId'] === undefined) {
    throw refuse('invalid_config', 'projectId', 'projectId is missing: it is the id that "svc list" shows')
  }
  return { path, env, config: object as unknown as ClientConfig, warnings }
}

function didYouMean(key: string): string {
  const plain = (name: string): string => name.toLowerCase().replace(/[^a-z]|s$/g, '')
  const meant = Object.keys(checks).find(known => plain(known) === plain(key))
  return meant === undefined ? '' : `: did you mean "${meant}"?`
}

/**
 * The address of a server, without a slash at its end; it may have a path (a server behind a prefix). null: it is none,
 * or has what an address must not have (a query, a fragment, a password).
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
  return parsed.origin + parsed.pathname.replace(/\/+$/, '')
}
